"""The container image, built by buildah on a bare Debian 12: started read-only, taught, looked at, stopped.

There is no container engine in such a test: the root folder of the image is run in a namespace, as its user.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.postfix import DEPLOY

pytestmark = [
    pytest.mark.soak,  # it makes a root, and builds the image with a compiler in it
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a root of its own"),
]

ROOT = DEPLOY.parent
# In the namespace: mounts as an engine makes them, then the daemon, and what a newcomer does.
SESSION = r"""
set -eu
mount --bind "$root" "$root"
mount --bind "$volume" "$root/var/lib/nbstream"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o uid=10025 tmpfs "$root/run/nbstream"
mount -o remount,ro,bind "$root"
ip link set lo up
environment="env -i PATH=/opt/nbstream/bin:/usr/local/bin:/usr/bin:/bin HOME=/var/lib/nbstream"
inside() { chroot --userspec=10025:10025 "$root" $environment "$@"; }
# Without the function, which would be a shell between this one and the daemon.
chroot --userspec=10025:10025 "$root" $environment \
    nbstream-entrypoint serve --config /etc/nbstream/nbstream.yaml >&2 &
daemon=$!
health="import urllib.request; urllib.request.urlopen('http://127.0.0.1:11334/readyz', timeout=12)"
tries=0
until inside python3 -c "$health" 2>/dev/null; do
    tries=$((tries + 1)); [ "$tries" -lt 300 ]; sleep 0.2
done
printf 'Subject: You have won\n\nClaim your free prize now.\n' | inside nbstream learn spam -
link=$(inside nbstream ui 2>/dev/null)
curl --silent --show-error --fail "$link" | grep -o '<form' | head -1
curl --silent --output /dev/null --write-out 'without a login %{http_code}\n' http://127.0.0.1:11334/ui/
inside nbstream status | grep -E '^(engine|daemon)'
if inside touch /etc/nbstream/other 2>/dev/null; then echo "the root can be written"; fi
kill -TERM "$daemon"
wait "$daemon"
echo "stopped with $?"
"""


@pytest.fixture(scope="module")
def buildah(program: Callable[[str], str]) -> Iterator[Callable[..., str]]:
    """Run buildah with a storage of its own."""
    folder = tempfile.mkdtemp(prefix="nbstream-image-")
    words = [program("buildah"), "--root", f"{folder}/store", "--runroot", f"{folder}/run"]

    def run(*arguments: str) -> str:
        environment = {**os.environ, "STORAGE_DRIVER": "vfs"}
        done = subprocess.run(
            [*words, *arguments], capture_output=True, text=True, env=environment, timeout=1500, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    yield run
    run("rm", "--all")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def image(
    buildah: Callable[..., str], program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The image, on a root of Debian 12 in place of one that an engine pulls, with this machine's pip settings."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run(
        [program("mmdebstrap"), "--quiet", "--variant=minbase", "bookworm", folder / "base"],
        check=True,
        timeout=900,
    )
    base = buildah("from", "--isolation", "chroot", "scratch")
    subprocess.run(["cp", "-a", f"{folder}/base/.", buildah("mount", base)], check=True)
    buildah("commit", base, "nbstream-test-base")
    pip = subprocess.run(["pip", "config", "list"], capture_output=True, text=True, check=True).stdout
    lines = (line.partition(".")[2].replace("'", "") for line in pip.splitlines() if line.startswith("global."))
    machine = folder / "machine"
    machine.mkdir()
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", machine / "ca.crt")
    kept = [line for line in lines if "index" in line or "host" in line]
    (machine / "pip.conf").write_text("\n".join(["[global]", *kept, "cert=/machine/ca.crt"]) + "\n")
    options = [
        *("--isolation", "chroot", "--format", "docker", "--network", "host"),
        *("--build-arg", "BASE=nbstream-test-base", "--volume", f"{machine}:/machine:ro"),
        *("--volume", f"{machine}/pip.conf:/etc/pip.conf:ro"),
    ]
    return buildah("build", *options, "--file", f"{DEPLOY}/container/Containerfile", "--quiet", str(ROOT))


def test_it_is_started_checked_taught_and_stopped(
    buildah: Callable[..., str], image: str, tmp_path: Path, program: Callable[[str], str]
) -> None:
    root = buildah("mount", buildah("from", "--isolation", "chroot", image))
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o700)
    os.chown(volume, 10025, 10025)
    session = subprocess.run(
        [program("unshare"), "--mount", "--net", "bash", "-c", SESSION],
        env={**os.environ, "root": root, "volume": str(volume)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert session.returncode == 0, session.stdout + session.stderr
    lines = session.stdout.splitlines()
    assert lines[0].startswith("1 learned as spam")
    assert lines[1:3] == ["<form", "without a login 403"]
    assert lines[3].startswith("daemon   running")
    assert lines[4] == "engine   native (its library fits)"
    assert lines[5:] == ["stopped with 0"]


def test_it_has_a_health_check_a_user_and_no_compiler(buildah: Callable[..., str], image: str) -> None:
    settings = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
    root = Path(buildah("mount", buildah("from", "--isolation", "chroot", image)))

    assert settings["Healthcheck"]["Test"][0] == "CMD"
    assert settings["User"] == "nbstream"
    assert not (root / "usr/bin/cargo").exists()
