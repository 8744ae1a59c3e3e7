"""The containers of ``deploy/compose`` without an engine: each service in namespaces and a root folder of its own.

What the engine would do is done by the kernel alone, as ``compose.yaml`` says it: the root is an overlay over this
machine's programs and cannot be written to, configs, secrets, volumes and tmpfs are at their places, the network
is a bridge with the addresses of the file, and a process has no capability that is not named. The instructions of
a Containerfile are executed, but for those that install packages: their programs come from this machine.

It is run by ``plain_root.run_alone``, with a copy of ``deploy/compose`` whose ``prepare`` has run, a folder
to work in, and the password of the user.
"""

from __future__ import annotations

import imaplib
import re
import shutil
import smtplib
import socket
import ssl
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.containerfile import read_instructions
from tests.deploy.plain_root import entering, make_root, run
from tests.harness.daemon import wait_until
from tests.harness.postfix import DEPLOY

BRIDGE = "nbstream0"
STRANGER = "172.31.19.14"  # the bridge's own address: that of a published port's clients
SERVICES = ("redis", "nbstream", "postfix", "dovecot")
NAMES_OF_IMAGES = ("postfix", "postdrop", "vmail")  # users that a Containerfile makes
USER = "ann@example.org"


class Service:
    """A service of ``compose.yaml`` in ``compose``, prepared in ``folder``, reached at ``address``."""

    def __init__(self, name: str, compose: Path, folder: Path, address: str) -> None:
        project = read_project(compose)
        self.name = name
        self._compose = compose
        self.address = address
        self._settings = project["services"][name]
        self._project = project
        self._folder = folder / name
        self._root = self._folder / "root"  # where make_root makes it
        self._process: subprocess.Popen[bytes] | None = None

    def make_root(self, hosts: str) -> None:
        """Make the root folder with everything in it."""
        make_root(self._folder)
        (self._root / "etc" / "hosts").write_text(hosts)
        self._build()
        for kind, target_folder in (("configs", ""), ("secrets", "/run/secrets")):
            for entry in self._settings.get(kind, []):
                source, target = (entry["source"], entry["target"]) if isinstance(entry, dict) else (entry, entry)
                place = self._inside(f"{target_folder}/{target}")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._compose / self._project[kind][source]["file"], place)
        for volume in self._settings.get("volumes", []):
            self._mount_volume(*volume.split(":"))
        for entry in self._settings.get("tmpfs", []):
            target, _, options = entry.partition(":")
            self._inside(target).mkdir(parents=True, exist_ok=True)
            if not str(DEPLOY).startswith(f"{target}/"):  # this checkout itself
                run("mount", "-t", "tmpfs", "-o", options or "mode=1777", "tmpfs", self._inside(target))
        if self._settings["read_only"]:
            run("mount", "-o", "remount,ro", self._root)

    def _inside(self, target: str) -> Path:
        return self._root / target.lstrip("/")

    def _mount_volume(self, name: str, target: str) -> None:
        """Mount a volume, which belongs to whom its folder in the first image belongs to, as an engine does it."""
        volume, place = self._folder.parent / "volumes" / name, self._inside(target)
        place.mkdir(parents=True, exist_ok=True)
        if not volume.exists():
            volume.mkdir(parents=True)
            shutil.copystat(place, volume)
            owner = self._settings.get("user")
            run("chown", *([f"{owner}:"] if owner else [f"--reference={place}"]), volume)
        run("mount", "--bind", volume, place)

    def _build(self) -> None:
        build = self._settings.get("build")
        if self.name == "nbstream" or not build:  # it runs from this checkout
            return
        for name in ("passwd", "shadow", "group", "gshadow"):
            run("sed", "-i", "-E", f"/^({'|'.join(NAMES_OF_IMAGES)}):/d", self._inside(f"/etc/{name}"))
        context = self._compose / build["context"]
        for instruction, rest in read_instructions(context / build["dockerfile"]):
            if instruction == "RUN":
                commands = [part for part in rest.split(" && ") if not re.search(r"\bapt(-get)?\b", part)]
                run("chroot", self._root, "sh", "-euc", " && ".join(commands))
            elif instruction == "COPY":
                words = [word for word in rest.split() if not word.startswith("--")]
                mode = re.search(r"--chmod=(\d+)", rest)
                assert mode is not None
                target = self._inside(words[-1])
                run("install", "-D", f"--mode={mode[1]}", f"--target-directory={target}", *words[:-1], cwd=context)

    def _words(self) -> list[str]:
        """What the container's first process is, and the rights that it has."""
        user: str | None = self._settings.get("user")
        words: list[str] = self._settings.get("command", [])
        if self.name == "nbstream":
            words = [sys.executable, "-m", "nbstream.cli", "serve", "-c", "/etc/nbstream/nbstream.yaml"]
        elif build := self._settings.get("build"):
            instructions = read_instructions(self._compose / build["context"] / build["dockerfile"])
            words = yaml.safe_load(next(rest for name, rest in instructions if name == "CMD"))
            user = next((rest for name, rest in instructions if name == "USER"), None)
        capabilities = ["-all", *(f"+{name.lower()}" for name in self._settings.get("cap_add", []))]
        rights = ["--no-new-privs", f"--bounding-set={','.join(capabilities)}"]
        if user:
            rights += [f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return ["setpriv", *rights, *words]

    def start(self) -> None:
        """Start the service within its network namespace."""
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self._entering(), *self._words()], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def is_healthy(self) -> bool:
        """Return what the service's health check says."""
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} has ended: {self.log}"
        kind, *words = self._settings["healthcheck"]["test"]
        if words[0] == "python":
            words[0] = sys.executable
        words = [word.replace("$$", "$") for word in words]
        entering = [*self._entering(), *(["sh", "-c"] if kind == "CMD-SHELL" else []), *words]
        return subprocess.run(entering, check=False, capture_output=True, timeout=20).returncode == 0

    @property
    def log(self) -> str:
        """What the service has written."""
        return (self._folder / "log").read_text()

    def _entering(self) -> list[str]:
        return ["ip", "netns", "exec", self.name, *entering(self._root)]


def connect_networks(addresses: dict[str, str]) -> None:
    """Connect each service's namespace to one bridge."""
    run("mount", "-t", "tmpfs", "tmpfs", "/run")  # ip keeps its namespaces there
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{STRANGER}/28", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    for name, address in addresses.items():
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"v{name}", "master", BRIDGE, "up")
        run("ip", "-n", name, "address", "add", f"{address}/28", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", name, "link", "set", device, "up")


def metric(address: str, name: str, label: str = "") -> float:
    """Return the sum of a metric over its labels, or over those that have ``label``, as in ``code="200"``."""
    with urllib.request.urlopen(f"http://{address}:9464/metrics", timeout=20) as response:
        lines = response.read().decode().splitlines()
    values = (line for line in lines if re.match(rf"{name}[{{ ]", line) and label in line)
    return sum(float(line.rpartition(" ")[2]) for line in values)


def use(addresses: dict[str, str], password: str) -> None:
    """Do what a stranger and a user do, and see what becomes of it."""
    with smtplib.SMTP(addresses["postfix"], 25, "client.example", 20) as stranger:
        stranger.ehlo()
        for recipient, sender, expected in (
            (USER, "someone@elsewhere.example", 250),
            ("nobody@example.org", "someone@elsewhere.example", 550),
            ("someone@elsewhere.example", "someone@elsewhere.example", 554),
            ("spam@nbstream.invalid", "someone@elsewhere.example", 554),
        ):
            stranger.mail(sender)
            assert stranger.rcpt(recipient)[0] == expected, recipient
            stranger.rset()
        spam = "Subject: cheap watches\r\nX-Spam-Flag: YES\r\n\r\nBuy now.\r\n"
        stranger.sendmail("someone@elsewhere.example", USER, spam)

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # signed by itself
    with imaplib.IMAP4(addresses["dovecot"], 10143, timeout=20) as mailbox:
        mailbox.starttls(context)
        mailbox.login(USER, password)

        def arrived() -> bool:
            return mailbox.select("INBOX")[1] == [b"1"]

        wait_until(arrived)
        content = str(mailbox.fetch("1", "(RFC822.HEADER)")[1])
        assert "X-Nbstream: " in content, content
        assert "X-Spam-Flag" not in content, content
        assert mailbox.copy("1", "Junk")[0] == "OK"
    learned = ("nbstream_feedback_total", 'outcome="learned"')  # what was refused is counted there too
    wait_until(lambda: metric(addresses["nbstream"], *learned) == 1)
    wait_until(lambda: metric(addresses["nbstream"], "nbstream_spool_delay_seconds_count") == 1)

    with smtplib.SMTP(addresses["postfix"], 587, "client.example", 20) as submission:
        submission.starttls(context=context)
        submission.login(USER, password)
        submission.sendmail(USER, "ham@nbstream.invalid", "Subject: minutes\r\n\r\nThe meeting is at ten.\r\n")
    wait_until(lambda: metric(addresses["nbstream"], *learned) == 2)


def refuse_users_of_the_machine(addresses: dict[str, str]) -> None:
    """Reach for the containers as a user of the machine does, who is at the bridge's own address."""
    for port in (24, 10012, 10024):
        with suppress(ConnectionRefusedError), socket.create_connection((addresses["dovecot"], port), 20):
            raise AssertionError(f"Dovecot listens on port {port}")
    with smtplib.SMTP(addresses["postfix"], 10026, "client.example", 20) as back:
        back.ehlo()
        assert back.mail("someone@elsewhere.example")[0] == 250
        assert back.rcpt(USER)[0] == 554
    with smtplib.SMTP(addresses["nbstream"], 10025, "client.example", 20) as filtering:
        filtering.ehlo()
        for recipient in ("someone@elsewhere.example", "spam@nbstream.invalid"):
            filtering.mail("someone@elsewhere.example")
            code, text = filtering.rcpt(recipient)
            if code == 250:
                code, text = filtering.data("Subject: relayed\r\n\r\nThrough the filter.\r\n")
            assert code >= 500, (recipient, code, text)
            filtering.rset()


def read_project(compose: Path) -> dict[str, Any]:
    """Return what ``compose.yaml`` says."""
    project: dict[str, Any] = yaml.safe_load((compose / "compose.yaml").read_text())
    return project


def main(compose: Path, folder: Path, password: str) -> None:
    """Bring everything up as ``compose.yaml`` says, use it, and raise what went wrong."""
    project = read_project(compose)
    fixed = {name: project["services"][name]["networks"] for name in SERVICES}
    free = (f"172.31.19.{number}" for number in range(5, 10))
    addresses = {
        name: networks["mail"]["ipv4_address"] if "mail" in networks else next(free)
        for name, networks in fixed.items()
    }
    hosts = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items())
    run("mount", "-t", "tmpfs", "tmpfs", folder)
    connect_networks(addresses)
    services = [Service(name, compose, folder, address) for name, address in addresses.items()]
    try:
        for service in services:
            service.make_root(hosts)
            service.start()
            wait_until(service.is_healthy)
        refuse_users_of_the_machine(addresses)
        use(addresses, password)
    except BaseException:
        for service in services:
            with suppress(OSError):
                print(f"--- {service.name}\n{service.log}", file=sys.stderr)
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
