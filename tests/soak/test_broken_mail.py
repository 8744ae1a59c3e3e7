"""Broken mail in bulk: 10,000 mutations, and the torture messages of MIME libraries where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.corpora import torture_messages
from tests.harness.daemon import DaemonProcess
from tests.harness.mutation import mutations
from tests.harness.samples import samples
from tests.listeners.smtp.test_broken_mail import RICH, pass_all, write_config

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


def test_10_000_mutated_messages_pass(tmp_path: Path, redis_binary: Path) -> None:
    originals = [RICH, *(raw for _, raw in samples(50))]
    with DaemonProcess(write_config(tmp_path)) as daemon:
        assert pass_all(daemon, tmp_path / "state/Maildir", mutations(originals, 10_000)) == 10_000
        assert daemon.metric('nbstream_filter_failures_total{reason="error"}') == 0


def test_torture_messages_and_their_mutations_pass(tmp_path: Path, redis_binary: Path) -> None:
    torture = torture_messages(tmp_path / "torture")
    with DaemonProcess(write_config(tmp_path)) as daemon:
        assert pass_all(daemon, tmp_path / "state/Maildir", torture) == len(torture)
        assert pass_all(daemon, tmp_path / "state/Maildir", mutations(torture, 10_000)) == 10_000
        assert daemon.metric('nbstream_filter_failures_total{reason="error"}') == 0
