"""Which other filter looks at the same mail."""

from __future__ import annotations

from typing import Literal, TypeAlias

from nbstream.settings.values import Section

FilterName: TypeAlias = Literal["spamassassin", "rspamd", "bogofilter", "spambayes", "dspam"]


class CompareSettings(Section):
    """The other filter that looks at the same mail, for ``nbstream compare``."""

    filter: FilterName
    """The filter whose verdict is read from the header fields that it writes: ``spamassassin`` (amavis as well),
    ``rspamd``, ``bogofilter``, ``spambayes`` or ``dspam``. Name only one that is yours and removes forged fields:
    its verdict is what mail says that comes in.
    """

    unmarked: Literal["nothing", "ham"] = "nothing"
    """What a message without any field of it says. ``ham`` is for a filter that marks spam alone and looks at mail
    before nbstream.
    """
