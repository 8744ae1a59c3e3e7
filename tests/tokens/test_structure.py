from nbstream.mail.message import Message
from nbstream.tokens.structure import bare_text_tokens, structure_tokens

MIXED = b"""MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b1"

--b1
Content-Type: text/plain; charset=UTF-8
Content-Transfer-Encoding: quoted-printable

hello
--b1
Content-Type: image/gif; name="Picture 12.GIF"
Content-Disposition: attachment
Content-Transfer-Encoding: base64

R0lGODlh
--b1--
"""


def test_the_tree_its_parts_and_their_encodings_are_tokens() -> None:
    tokens = set(structure_tokens(Message.parse(MIXED).parts))
    assert "tree:0m/mixed,1t/plain,1i/gif" in tokens
    assert {"type:image/gif", "kind:image:1", "charset:utf-8", "disposition:attachment"} <= tokens
    assert {"encoding:base64:i/gif", "encoding:quoted-printable:t/plain"} <= tokens


def test_an_attachment_gives_name_type_and_content() -> None:
    tokens = structure_tokens(Message.parse(MIXED).parts)
    assert {"file:picture 12.gif", "file.type:gif", "file.shape:a 9.a"} <= set(tokens)
    assert any(token.startswith("content:") for token in tokens)


def test_a_bare_text_gives_length_digits_capitals_marks_and_numbers() -> None:
    tokens = bare_text_tokens("CALL 08712345678 now! Win £1000")
    assert {"text.length:5", "text.twenties:1", "text.digits:4", "text.capitals:2"} <= set(tokens)
    assert {"text.mark:!", "text.mark:£", "text.number:11", "text.number:4"} <= set(tokens)
