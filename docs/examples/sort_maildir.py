"""Sort a Maildir: what is spam goes into its Junk folder. Learn first from what lies there already.

python sort_maildir.py ~/Maildir
"""

import mailbox
import sys
from pathlib import Path

from nbstream import SpamFilter


def main(folder: Path) -> None:
    """Learn the mail that was read and Junk, then move new spam."""
    inbox = mailbox.Maildir(folder, create=False)
    junk = inbox.get_folder("Junk") if "Junk" in inbox.list_folders() else inbox.add_folder("Junk")
    with SpamFilter.open(folder / "mail.nbs") as spam_filter:
        seen = [key for key in inbox.iterkeys() if "S" in inbox.get_message(key).get_flags()]
        spam_filter.learn_many((junk.get_bytes(key) for key in junk.iterkeys()), "spam")
        spam_filter.learn_many((inbox.get_bytes(key) for key in seen), "ham")
        for key in list(inbox.iterkeys()):
            message = inbox.get_message(key)
            if "S" not in message.get_flags():
                result = spam_filter.check(inbox.get_bytes(key))
                print(f"{result.verdict:6} {result.probability:.3f}  {message['Subject']}")
                if result.verdict == "spam":
                    junk.add(message)
                    inbox.remove(key)


if __name__ == "__main__":
    main(Path(sys.argv[1]).expanduser())
