"""The settings of feedback by mail."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo, field_validator

from nbstream.config.listeners import Networks
from nbstream.config.section import Section
from nbstream.config.values import read_mail_address, read_network

MailAddress = Annotated[str, BeforeValidator(read_mail_address)]


class FeedbackSettings(Section):
    """The two addresses that take corrections by mail, and the networks they are taken from."""

    spam_address: MailAddress = "spam@nbstream.invalid"
    """Mail to this address is learned as spam and never delivered."""

    ham_address: MailAddress = "ham@nbstream.invalid"
    """Mail to this address is learned as ham and never delivered. It must differ from ``spam_address``."""

    allow_from: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    """The networks whose peers may teach; all other peers are refused (550). Behind a mail server every client is
    that server, and the mail server must then see to it that only your own users write to these addresses.
    """

    check_forwarded: bool = False
    """Whether a client that the mail server names by XFORWARD must be in ``allow_from`` too. Without it the mail
    server decides who may write to the two addresses: it knows the users who log in from anywhere.
    """

    @field_validator("ham_address")
    @classmethod
    def _two_addresses(cls, value: str, info: ValidationInfo) -> str:
        if value.lower() == info.data.get("spam_address", "").lower():
            raise ValueError("must differ from feedback.spam_address (upper and lower case are the same)")
        return value

    @property
    def warnings(self) -> list[str]:
        """One sentence where everybody may teach."""
        everybody = [str(network) for network in self.allow_from if not network.prefixlen]
        return [f"feedback.allow_from: {network} is everybody: strangers may teach" for network in everybody]
