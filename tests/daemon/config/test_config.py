"""The configuration: what is read, what is refused and how that is said, and that no secret gets out."""

import json
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nbstream.addresses import TcpAddress
from nbstream.cli.commands.config import show_defaults
from nbstream.cli.exit_codes import exit_code
from nbstream.daemon.assembly.policy import make_policy
from nbstream.daemon.config import Settings, default_settings, find_config_file, load_settings, loading
from nbstream.errors import ConfigError
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.settings import yaml_file
from nbstream.settings.values import Section

EXAMPLE = Path(__file__).parents[3] / "config" / "nbstream.yaml"
PASSWORD = "Xyzzy-4711"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> Path:
        file = tmp_path / "nbstream.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write_file


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return file


def refusal_of(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    return str(caught.value)


def leaves(section: Section, above: str = "") -> Iterator[str]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        yield from leaves(value, f"{above}{name}.") if isinstance(value, Section) else [f"{above}{name}"]


# The example and the defaults


def test_the_example_is_the_defaults() -> None:
    assert load_settings(EXAMPLE) == Settings().with_source(EXAMPLE)
    assert default_settings() == Settings()


def test_show_defaults_prints_every_setting() -> None:
    data = yaml.safe_load("\n".join(show_defaults(Settings())))
    for leaf in leaves(Settings()):
        value = data
        for name in leaf.split(".") if leaf != "relay.next_hop.path" else ["relay", "next_hop"]:
            assert name in value, leaf
            value = value[name]


# What is read


@pytest.mark.parametrize(
    ("form", "fixed"),
    [("", 0.99), (", spam: 0.95", 0.95), (", spam: 0.5", 0.5)],
)
def test_a_budget_has_a_fixed_threshold_for_the_time_without_a_guarantee(
    write: Write, form: str, fixed: float
) -> None:
    settings = load_settings(write(f"verdict: {{max_false_positive_rate: 0.001{form}}}"))

    assert make_policy(settings) == ThresholdPolicy(0.5, fixed, None, 0.001)


@pytest.mark.parametrize(
    ("text", "envelopes"),
    [
        ("", True),
        ("memory: {envelope: false}", False),
        ("listeners: {http: null}", False),
        ("listeners: {http: null}\nmemory: {envelope: true}", True),
        ("memory: {envelope: null}", True),
    ],
)
def test_envelopes_are_remembered_with_the_page_unless_it_is_said_otherwise(
    write: Write, text: str, envelopes: bool
) -> None:
    assert load_settings(write(text)).remembers_envelopes == envelopes


@pytest.mark.parametrize(
    ("memory", "listeners", "warned"),
    [
        ("{}", "{http: {listen: 127.0.0.1:8080}}", True),
        ("{envelope: false}", "{http: {listen: 127.0.0.1:8080}}", False),
        ("{envelope: true}", "{http: {listen: 127.0.0.1:8080}}", False),
        ("{}", "{http: null}", False),
    ],
)
def test_private_tokens_beside_envelopes_that_nobody_asked_for_are_warned_of(
    write: Write, memory: str, listeners: str, warned: bool
) -> None:
    text = f"model: {{private_tokens: true}}\nmemory: {memory}\nlisteners: {listeners}\n"
    assert any("private_tokens" in warning for warning in load_settings(write(text)).warnings) is warned


# What is refused: the key in the text, and what is allowed there

REFUSED = [
    # shape
    ("- a", "", "found a list, must be a mapping of settings"),
    ("text", "", "found text, must be a mapping of settings"),
    ("a: [", "", "must be YAML:"),
    ("a: b: c", "", "must be YAML: mapping values are not allowed"),
    ("a: 1\n---\nb: 2", "", "must be YAML: expected a single document"),
    ("a: \x00", "", "must be YAML: "),
    ("a: &x 1\nb: *x", "", "found an alias, must be the value itself"),
    ("[" * 500_000, "", "found values nested deeper than 20"),
    ("verdict: {spam: 0.9, spam: 0.9}", "verdict.spam", "found twice, must be given once (also on line 1)"),
    ("limits: {}\nlog: {}\nlimits: {}", "limits", "found twice, must be given once (also on line 1)"),
    ("? [a]\n: 1", "", "found a list or mapping as a key, must be text"),
    ("state_dir: !python/name:os.system x", "state_dir", "found a tag, must be a plain value"),
    ("limits: !!set {}", "limits", "found a tag, must be a plain value"),
    ("limits: {max_message_bytes: 0x_}", "limits.max_message_bytes", "found a malformed value"),
    ("drain_seconds: !!bool maybe", "drain_seconds", "found a malformed value"),
    ("drain_seconds: !!int", "drain_seconds", "found a malformed value"),
    (
        f"limits: {{max_message_bytes: 0x{'f' * 5000}}}",
        "limits.max_message_bytes",
        "found a number of more than 18 digits",
    ),
    # unknown keys
    (
        "verdcit: {}",
        "verdcit",
        "found an unknown key, did you mean verdict? must be one of state_dir, workers, redis,",
    ),
    ("redis: {urll: x}", "redis.urll", "did you mean url? must be one of url, sentinels, service, cluster, user,"),
    ("listeners: {smtp: {port: 1}}", "listeners.smtp.port", "found an unknown key, must be one of listen,"),
    ("listeners: {imap: {}}", "listeners.imap", "must be one of smtp, http, metrics"),
    ("source: x", "source", "found an unknown key"),
    ("on: x", "on", "found an unknown key"),
    ("<<: {}", "'<<'", "found an unknown key"),
    ("1: x", "1", "found an unknown key"),
    # types
    ("redis:", "redis", "found null, must be a mapping with keys among url, sentinels, service,"),
    ("listeners: null", "listeners", "found null, must be a mapping with keys among smtp, http, metrics"),
    (
        "listeners: {smtp: true}",
        "listeners.smtp",
        "found true or false, must be a mapping with keys among listen,",
    ),
    ("limits: [1]", "limits", "found a list, must be a mapping"),
    ("limits: {max_message_bytes: '5'}", "limits.max_message_bytes", "found '5', must be a whole number"),
    ("limits: {max_message_bytes: true}", "limits.max_message_bytes", "found true, must be a whole number"),
    ("limits: {max_message_bytes: 1.0}", "limits.max_message_bytes", "found 1.0, must be a whole number"),
    ("limits: {max_message_bytes: null}", "limits.max_message_bytes", "found null, must be a whole number"),
    ("limits: {max_message_bytes: {}}", "limits.max_message_bytes", "found a mapping, must be a whole number"),
    ("drain_seconds: 1e-3", "drain_seconds", "found '1e-3', must be a number such as 5 or 0.5"),
    ("drain_seconds: .nan", "drain_seconds", "found nan, must be a finite number"),
    ("drain_seconds: true", "drain_seconds", "found true, must be a number"),
    ("headers: {clues: 1}", "headers.clues", "found 1, must be true or false"),
    ("on_filter_failure: no", "on_filter_failure", "found false, must be 'pass' or 'defer'"),
    ("log: {format: yaml}", "log.format", "found 'yaml', must be 'auto', 'text' or 'json'"),
    ("log: {level: INFO}", "log.level", "must be 'debug', 'info', 'warning' or 'error'"),
    ("model: {name: 5}", "model.name", "found 5, must be text"),
    ("state_dir: 5", "state_dir", "found 5, must be a path"),
    ("state_dir: ''", "state_dir", "found '', must be a path"),
    ("state_dir: ~nobody-by-this-name/x", "state_dir", "must be a path without ~"),
    # ranges
    ("limits: {max_message_bytes: 0}", "limits.max_message_bytes", "found 0, must be at least 1"),
    ("limits: {max_connections: 1000001}", "limits.max_connections", "found 1000001, must be at most 1000000"),
    (
        "verdict: {max_false_positive_rate: 0.00001}",
        "verdict.max_false_positive_rate",
        "found 1e-05, must be at least 6e-05",
    ),
    ("model: {min_learned: -1}", "model.min_learned", "found -1, must be at least 0"),
    ("model: {classes: [spam]}", "model.classes", "must have ham and spam"),
    ("model: {classes: [ham, spam, ham]}", "model.classes", "must be at most 8 different names"),
    ("model: {classes: [ham, spam, a, b, c, d, e, f, g]}", "model.classes", "must be at most 8 different names"),
    ("model: {classes: [ham, spam, News]}", "model.classes[2]", "must be a name of 1 to 31 lower-case letters"),
    ("model: {classes: [ham, spam, 1]}", "model.classes[2]", "must be a name of 1 to 31 lower-case letters"),
    *(
        (f"model: {{classes: [ham, {name}, spam]}}", "model.classes[1]", "must be another name")
        for name in ("unlearn", "release", "none", "reinforce-ham")
    ),
    (
        "feedback: {kinds: {news: n@x.org}}",
        "feedback.kinds.news",
        "must be one of model.classes, and neither ham nor spam",
    ),
    (
        "model: {classes: [ham, news, spam]}\nfeedback: {kinds: {news: SPAM@nbstream.invalid}}",
        "feedback.kinds",
        "must have different addresses",
    ),
    ("model: {ledger_days: 0}", "model.ledger_days", "found 0, must be at least 1"),
    ("redis: {timeout_seconds: 0}", "redis.timeout_seconds", "found 0, must be greater than 0"),
    ("drain_seconds: -1", "drain_seconds", "found -1, must be at least 0"),
    ("autolearn: {spam: 1}", "autolearn.spam", "found 1, must be less than 1.0"),
    ("autolearn: {ham: 0.5}", "autolearn", "must have a ham below verdict.unsure (0.5)"),
    ("autolearn: {spam: 0.9}", "autolearn", "must have a spam of at least verdict.spam (0.99)"),
    (
        "verdict: {spam: 0.9995}\nautolearn: {spam: 0.999}",
        "autolearn",
        "must have a spam of at least verdict.spam (0.9995)",
    ),
    ("model: {max_tokens: 9999}", "model.max_tokens", "found 9999, must be at least 10000"),
    ("model: {name: Default}", "model.name", "found 'Default', must be text of the characters a-z 0-9 . _ -"),
    ("model: {name: 'a\n\n'}", "model.name", "must be text of the characters"),
    # addresses
    (
        "listeners: {smtp: {listen: 10025}}",
        "listeners.smtp.listen",
        "found 10025, must be HOST:PORT or [IPV6]:PORT",
    ),
    ("listeners: {smtp: {listen: null}}", "listeners.smtp.listen", "found null, must be HOST:PORT"),
    ("listeners: {smtp: {listen: ':25'}}", "listeners.smtp.listen", "must be HOST:PORT"),
    ("listeners: {smtp: {listen: '::1:25'}}", "listeners.smtp.listen", "must be HOST:PORT or [IPV6]:PORT"),
    ("listeners: {smtp: {listen: '[h]:25'}}", "listeners.smtp.listen", "must be HOST:PORT"),
    ("listeners: {smtp: {listen: h:65536}}", "listeners.smtp.listen", "the port from 0 to 65535"),
    ("listeners: {smtp: {listen: 127.0.0.256:25}}", "listeners.smtp.listen", "must be HOST:PORT"),
    ("listeners: {smtp: {listen: h\u00f6st:25}}", "listeners.smtp.listen", "must be HOST:PORT"),
    ("listeners: {smtp: {listen: 'h:\u0665'}}", "listeners.smtp.listen", "must be HOST:PORT"),
    ("hostname: 'a b'", "hostname", "must be a host name"),
    ("trusted_authserv_ids: ['']", "trusted_authserv_ids[0]", "must be the name that a server writes first"),
    ("trusted_authserv_ids: ['a b']", "trusted_authserv_ids[0]", "must be the name that a server writes first"),
    ("trusted_authserv_ids: [a, 'b;']", "trusted_authserv_ids[1]", "must be the name that a server writes first"),
    ("trusted_authserv_ids: mx.example.org", "trusted_authserv_ids", "must be a list"),
    ("listeners: {metrics: {}}", "listeners.metrics.listen", "not given, must be given"),
    (
        "relay: {next_hop: lmtps://h:24}",
        "relay.next_hop",
        "must be maildir, maildir:PATH, smtp://HOST:PORT, smtps:",
    ),
    ("relay: {next_hop: smtp://h}", "relay.next_hop", "must be maildir, maildir:PATH, smtp://HOST:PORT"),
    ("relay: {next_hop: smtp://h:0}", "relay.next_hop", "the port from 1 to 65535"),
    ("relay: {next_hop: 'maildir:'}", "relay.next_hop", "found 'maildir:', must be maildir, maildir:PATH"),
    ("relay: {next_hop: null}", "relay.next_hop", "found null, must be maildir"),
    ("redis: {url: http://h}", "redis.url", "found a URL with http://, must be embedded, redis://"),
    ("redis: {url: 'unix:/run/r.sock'}", "redis.url", "must be embedded"),
    ("redis: {url: 'redis://h:0'}", "redis.url", "must be embedded"),
    ("redis: {url: 'redis://h/one'}", "redis.url", "must be embedded"),
    ("redis: {url: 'unix://h/run/r.sock'}", "redis.url", "must be embedded"),
    ("redis: {url: 'unix://:5/run/r.sock'}", "redis.url", "must be embedded"),
    ("redis: {url: 'redis://u:5?p@h'}", "redis.url", "must be embedded"),
    ("redis: {url: null}", "redis.url", "found null, must be embedded"),
    ("feedback: {spam_address: spam}", "feedback.spam_address", "found 'spam', must be a mail address"),
    ("feedback: {ham_address: <h@x.org>}", "feedback.ham_address", "must be a mail address"),
    ("feedback: {allow_from: 10.0.0.0/8}", "feedback.allow_from", "found text, must be a list"),
    ("feedback: {allow_from: ['::1', 10.0.0.1/8]}", "feedback.allow_from[1]", "host bits, such as 10.0.0.0/8"),
    ("feedback: {allow_from: [5]}", "feedback.allow_from[0]", "found 5, must be a network such as"),
    ("feedback: {allow_from: [example.org]}", "feedback.allow_from[0]", "must be a network such as"),
    # one key against another
    ("verdict: {spam: 0.3}", "verdict.spam", "found 0.3, must be at least verdict.unsure (0.5)"),
    (
        "verdict: {unsure: 0.995}",
        "verdict.spam",
        "found 0.99 (the default), must be at least verdict.unsure (0.995)",
    ),
    ("verdict: {reject: 0.9}", "verdict.reject", "found 0.9, must be null or at least verdict.spam (0.99)"),
    ("verdict: {unsure: 0}", "verdict.unsure", "found 0, must be greater than 0"),
    ("verdict: {spam: 1}", "verdict.spam", "found 1, must be less than 1"),
    ("verdict: {reject: 1.1}", "verdict.reject", "found 1.1, must be at most 1.0"),
    (
        "feedback: {spam_address: x@y.org, ham_address: X@Y.org}",
        "feedback.ham_address",
        "must differ from feedback.spam_address",
    ),
    (
        "listeners: {http: {listen: 0.0.0.0:80}}",
        "listeners.http.listen",
        "found '0.0.0.0:80', must be a loopback address, or listeners.http.password_file must be set",
    ),
    ("listeners: {http: {listen: 'example.org:80'}}", "listeners.http.listen", "must be a loopback address"),
    ("listeners: {http: {listen: 'unix:run/h'}}", "listeners.http.listen", "must be unix:/PATH"),
    ("listeners: {http: {listen: 'unix:/run/h mode=9'}}", "listeners.http.listen", "with mode=0660 or group=NAME"),
    ("listeners: {http: {allow_from: [10.0.0.1/8]}}", "listeners.http.allow_from[0]", "must be a network"),
    (
        "listeners: {http: {write_password_file: /dev/null}}",
        "listeners.http.write_password_file",
        "must be a file with a secret in it (it is empty)",
    ),
    ("listeners: {http: {listen: '[::]:80'}}", "listeners.http.listen", "must be a loopback address"),
    ("listeners: {dovecot: {listen: 127.0.0.1:1}}", "listeners.dovecot.listen", "must be unix:/PATH"),
    ("listeners: {dovecot: {listen: 1}}", "listeners.dovecot.listen", "must be unix:/PATH"),
    (
        "listeners: {dovecot: {trusted_users: ['a b']}}",
        "listeners.dovecot.trusted_users[0]",
        "must be the name or the number of a user",
    ),
    ("workers: 0", "workers", "found 0, must be auto, or a whole number from 1 to 128"),
    ("workers: all", "workers", "found 'all', must be auto, or a whole number from 1 to 128"),
    ("workers: true", "workers", "found true, must be auto, or a whole number from 1 to 128"),
    ("listeners: {stream: {listen: x}}", "listeners.stream.listen", "found an unknown key"),
]


@pytest.mark.parametrize(("text", "key", "allowed"), REFUSED, ids=[row[0][:60] for row in REFUSED])
def test_values_that_are_refused(write: Write, text: str, key: str, allowed: str) -> None:
    file = write(text)
    refusal = refusal_of(file)
    assert "\n" not in refusal
    path, _, rest = refusal.removeprefix(str(file)).partition(": ")
    assert path == "" or path[1:].isdecimal()
    assert rest.startswith(f"{key}: " if key else "")
    assert allowed in rest


def test_all_problems_come_at_once_with_their_lines_from_top_to_end(write: Write) -> None:
    file = write("verdict:\n  unsure: 0.5\n  spam: 0.3\n\nredsi: {}\nlimits:\n  max_message_bytes: many\n")
    lines = refusal_of(file).splitlines()
    assert lines[0] == f"{file}:3: verdict.spam: found 0.3, must be at least verdict.unsure (0.5)"
    assert lines[1].startswith(f"{file}:5: redsi: found an unknown key, did you mean redis?")
    assert lines[2].startswith(f"{file}:7: limits.max_message_bytes: found 'many', must be a whole number")
    assert len(lines) == 3


def test_a_key_cannot_break_its_line(write: Write) -> None:
    assert refusal_of(write('"a\\nb: c": 1')).count("\n") == 0


def test_a_refusal_ends_a_command_with_ex_config(write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write("a: 1"))
    assert exit_code(caught.value) == 78


@pytest.mark.parametrize(
    ("content", "allowed"),
    [
        (None, "must be a readable file (No such file or directory)"),
        (b"# \xff", "must be a file of UTF-8 text (byte 2 is not)"),
        (b"#" * (yaml_file.MAX_FILE_BYTES + 1), "must be a file of at most 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes | None, allowed: str) -> None:
    file = tmp_path / "nbstream.yaml"
    if content is not None:
        file.write_bytes(content)
    assert refusal_of(file) == f"{file}: {allowed}"


@given(st.integers(-100, 1100), st.integers(-100, 1100), st.none() | st.integers(-100, 1100))
def test_thresholds_are_accepted_exactly_when_in_order(unsure: int, spam: int, reject: int | None) -> None:
    in_order = 0 < unsure <= spam < 1000 and (reject is None or spam <= reject <= 1000)
    thresholds = {
        "unsure": unsure / 1000,
        "spam": spam / 1000,
        "reject": None if reject is None else reject / 1000,
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nbstream.yaml"
        file.write_text(json.dumps({"verdict": thresholds}))
        if in_order:
            assert load_settings(file).verdict.model_dump(include=set(thresholds)) == thresholds
        else:
            assert "verdict." in refusal_of(file)


# Secrets


def test_passwords_come_from_files_without_the_line_end(write: Write, password_file: Path) -> None:
    settings = load_settings(
        write(
            f"redis: {{url: redis://h, password_file: {password_file}}}\n"
            f"listeners: {{http: {{listen: 0.0.0.0:80, password_file: {password_file}}}}}\n"
        )
    )
    assert settings.listeners.http
    assert settings.listeners.http.listen == TcpAddress("0.0.0.0", 80)
    assert settings.listeners.http.password_file
    for password in (settings.redis.password, settings.listeners.http.password_file.secret):
        assert password
        assert password.get_secret_value() == PASSWORD


@pytest.mark.parametrize(
    ("content", "allowed"),
    [
        (None, "must be a readable file (No such file or directory)"),
        (b"", "must be a file with a secret in it (it is empty)"),
        (b" \r\n", "must be a file with a secret in it (it is empty)"),
        (f"{PASSWORD}\xe9".encode("latin-1"), "must be a file of UTF-8 text (byte 10 is not)"),
        (PASSWORD.encode() * 1000, "must be a file of at most 4096 bytes"),
    ],
)
def test_a_password_file_without_a_password_is_refused(
    write: Write, tmp_path: Path, content: bytes | None, allowed: str
) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_bytes(content)
    refusal = refusal_of(write(f"listeners: {{http: {{listen: 0.0.0.0:80, password_file: {secret}}}}}"))
    assert refusal.partition(": ")[2] == f"listeners.http.password_file: found '{secret}', {allowed}"


@pytest.mark.parametrize("url", ["embedded", "redis://:p@h"])
def test_a_redis_password_file_is_refused_where_it_would_not_count(
    write: Write, password_file: Path, url: str
) -> None:
    refusal = refusal_of(write(f"redis: {{url: '{url}', password_file: {password_file}}}"))
    assert "redis.password_file: found" in refusal
    assert "must be left out" in refusal


def everything_shown(file: Path) -> str:
    """All that a log or a terminal could show of these settings, or of their refusal."""
    try:
        settings = load_settings(file)
    except ConfigError as error:
        return "".join([*traceback.format_exception(error), repr(error), repr(error.__context__)])
    dumped = f"{settings.model_dump()} {settings.model_dump_json()}"
    return f"{settings!r} {settings} {settings.redis.display_url} {dumped}"


@pytest.mark.parametrize(
    "text",
    [
        "redis: {url: 'redis://:SECRET@h'}",
        "redis: {url: 'redis://h?password=SECRET'}",
        "redis: {url: 'redis://:SECRET@h', timeout_seconds: 0}",
        "redis: {url: 'http://:SECRET@h'}",
        "redis: {url: 'redis://:SECRET'}",
        "redis: {url: 'redis:SECRET@h'}",
        "redis: {url: 'redis://u:5?SECRET@h'}",
        "redis: {url: 'unix://:5/SECRET@/run/r.sock'}",
        "redis: {url: 'unix://:SECRET@/run/r.sock'}",
        "redis: {url: 'unix://:SECRET/run/r.sock'}",
        "redis: {url: '//:SECRET@h'}",
        "redis: {url: /SECRET}",
        "redis: {url: [SECRET]}",
        "redis: {url: SECRET}",
        "redis: {urls: 'redis://:SECRET@h'}",
        "redis: {password: SECRET}",
        "redis: {password_file: SECRET}",
        "redis: {password_file: SECRET, url: redis://h}",
        "redis: redis://:SECRET@h",
        "redis: [redis://:SECRET@h]",
        "redis://:SECRET@h",
        "{'redis://:SECRET@h': 1}",
        "{'redis://:SECRET@h': 1, 'redis://:SECRET@h': 1}",
        "redis: {url: 'redis://:SECRET@h', url: 'redis://:SECRET@h'}",
        'redis: {url: "redis://:SECRET\\q@h"}',
        "redis: {url: 'redis://:SECRET@h'",
        "redis: {url: redis://:SECRET@h}: {",
        "listeners: {http: SECRET}",
        "listeners: {http: {password: SECRET}}",
        "relay: {next_hop: 'smtp://u:SECRET@h:25'}",
    ],
)
@pytest.mark.parametrize("loader", [yaml_file._LOADER, yaml.SafeLoader], ids=["c", "python"])
def test_a_password_is_never_shown(
    write: Write, monkeypatch: pytest.MonkeyPatch, loader: type[yaml.SafeLoader], text: str
) -> None:
    monkeypatch.setattr(yaml_file, "_LOADER", loader)
    assert PASSWORD not in everything_shown(write(text.replace("SECRET", PASSWORD)))


@given(
    st.sampled_from(["redis", "rediss", "unix", "http"]),
    st.sampled_from(["", "user"]),
    st.text(max_size=4) | st.text(":/?#[]@%\\ 1", max_size=4),
    st.text(max_size=4) | st.text(":/?#[]@%\\ 1", max_size=4),
)
def test_no_password_however_odd_gets_out_of_the_redis_url(
    scheme: str, user: str, before: str, after: str
) -> None:
    url = f"{scheme}://{user}:{before}{PASSWORD}{after}@{'' if scheme == 'unix' else 'h'}/1"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nbstream.yaml"
        file.write_text(json.dumps({"redis": {"url": url}}), encoding="utf-8")
        assert PASSWORD not in everything_shown(file)


# Where the file is looked for


@pytest.fixture
def paths_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The usual places in their order, all in a temporary folder and without a file yet."""
    for folder in ("work", "home", "system"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(loading, "SYSTEM_FOLDER", tmp_path / "system")
    return [
        Path("nbstream.yaml"),
        tmp_path / "home/.config/nbstream/nbstream.yaml",
        tmp_path / "system/nbstream.yaml",
    ]


def put(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    return file


def test_a_folder_with_the_name_of_the_file_is_refused_and_not_skipped(paths_searched: list[Path]) -> None:
    put(paths_searched[1])
    paths_searched[0].mkdir()
    path = find_config_file(None)
    assert path == paths_searched[0]
    assert "must be a readable file" in refusal_of(path)


def test_a_password_for_teaching_needs_one_for_reading(write: Write, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the teachers")

    refusal = refusal_of(write(f"listeners: {{http: {{write_password_file: {tmp_path / 'secret'}}}}}"))

    assert refusal.endswith("secret', needs listeners.http.password_file")
