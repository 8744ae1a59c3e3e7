"""A configuration file: it is refused with one line for each problem, or gives settings that show no secret."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nbstream.daemon.config import Settings, keys_awaiting_restart, load_settings, policy_hash
from nbstream.errors import ConfigError
from nbstream.settings.yaml_file import MAX_FILE_BYTES
from tests.fuzz.target import FuzzTarget

_FOLDER = tempfile.TemporaryDirectory(prefix="nbstream-fuzz-")
_FILE = Path(_FOLDER.name) / "c.yaml"
_SECRET = "hunter2"


def _check(data: bytes) -> None:
    assert len(data) <= MAX_FILE_BYTES
    _FILE.write_bytes(data)
    try:
        settings = load_settings(_FILE)
    except ConfigError as error:
        problem = str(error)
    else:
        _check_settings(settings)
        return
    lines = problem.split("\n")
    assert all(line.startswith(str(_FILE)) for line in lines)
    assert all(line.isprintable() for line in lines)
    assert len(problem) <= 1000 * (len(data.splitlines()) + 2)


def _check_settings(settings: Settings) -> None:
    again = load_settings(_FILE)
    assert again == settings
    assert policy_hash(again) == policy_hash(settings)
    assert list(keys_awaiting_restart(settings, again)) == []
    assert f":{_SECRET}@" not in repr(settings)


TARGET = FuzzTarget(
    _check,
    (
        b"redis:\n  url: redis://:hunter2@127.0.0.1:6379/0\nmodel:\n  name: mail\n  min_learned: 10\n",
        b"redis:\n  sentinels: [a:26379, '[::1]:1']\n  service: mail\n  user: u\n  tls: true\n",
        b"redis:\n  cluster: ['127.0.0.1:7000']\n  url: redis://x?foo=1\n",
        b"listeners:\n  smtp:\n    listen: 127.0.0.1:10025\n  http: {listen: 'unix:/run/h.sock', "
        b"allow_from: [127.0.0.0/8]}\n"
        b"relay:\n  next_hop: smtp:127.0.0.1:10026\n",
        b"verdict:\n  spam: 0.95\n  reject: 0.999\nactions:\n  spam: quarantine\n"
        b"  reject: redirect:abuse@example.org\n"
        b"recipients:\n  - match: '*@example.org'\n    verdict: {spam: {max_false_positives: 0.001}}\n",
        b"log: {level: debug}\nlimits: {max_tokens: 0x10, max_message_bytes: 1_000}\nstate_dir: ~/x\n",
        b"a: &b [1]\nc: *b\n? {x: y}\n: z\n- !!python/object x\n",
        b"feedback: {allow_from: [::1, 10.0.0.0/33, true, 1e9]}\nautolearn: {spam: .nan}\n\xef\xbb\xbf",
        b"[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]",
        b"",
    ),
    words=(
        *(
            b"redis:",
            b"url: ",
            b"listeners:",
            b"listen: ",
            b"sentinels: [",
            b"cluster: [",
            b"tls: true",
            b"relay:",
            b"next_hop: ",
            b"verdict:",
            b"actions:",
            b"recipients:",
        ),
        *(
            b"model:",
            b"\n  ",
            b": ",
            b"- ",
            b"!!int ",
            b"!!bool ",
            b"<<: ",
            b"hunter2",
            b"null",
            b".inf",
            b"2026-11-22",
            b"0o7",
        ),
        *(
            b"maildir:/x",
            b"smtp:h:25",
            b"event_models:",
            b"allow_from: [",
            b"password_file: ",
            b"{",
            b"]",
        ),
    ),
    findings=(b"[[[[[[[[[[[[[[!!int ]]]]]]]]]]]]]]", b"limits: {max_message_bytes: 0x" + b"f" * 5000 + b"}"),
    max_bytes=6000,
    mutations=300,
)
