"""Messages for the digests: they contain each kind of token and each charset, and nothing random."""

from __future__ import annotations

import base64
import quopri
from collections.abc import Iterator
from encodings.aliases import aliases

SCRIPTS = (
    "Grüße aus Köln, déjà vu, ﬁne Ｆｕｌｌ ｗｉｄｔｈ 𝓼𝓽𝔂𝓵𝓮𝓭, İstanbul ŞIŞLI",
    "Γειά σου Κόσμε, ΌΔΥΣΣΕΥΣ",
    "Привет мир, Ёлка и Подъезд 1234",
    "שלום עולם ועוד",
    "مرحبا بالعالم ١٢٣",
    "สวัสดีชาวโลกทั้งหลาย",
    "你好，世界。今天的会议改到星期五下午三点",
    "こんにちは世界、ｶﾀｶﾅとカタカナ",
    "안녕하세요 세계, 각각",
    "नमस्ते दुनिया, வணக்கம்",
    "e\u0301\u0323a" + "\u0301" * 40 + " z\u200bero\u00adwidth \ufeff",
    "\U0001f6dc \u0cf3 \u0ece \U0001b132 \U0002ebf0 \U00010d50 \u31ef later than Unicode 14",
    "\U0001f600 \u2028 \u0085 \u00a0 spaces\u3000and\u2003marks \ufffd",
)
"""Texts in each script that the tokenizer knows, with characters that folding changes."""

TRUSTED_AUTHSERV_IDS = frozenset({"y.example"})
"""The server whose results of authentication are in the messages."""

HEADERS = (
    ("Return-Path", "<bounce+ann=x.example@lists.example.org>"),
    (
        "Authentication-Results",
        'Y.example (a; b) 1; spf=softfail reason="x;y" smtp.mailfrom=ann@Mail.x.example; dkim=pass',
    ),
    ("Received", "from a.x.example (HELO mail) ([192.0.2.9]) by y.example (Postfix 3.7) with ESMTPS id 12;"),
    ("Received", "by mx_1.example with SMTP; Sun, 1 Jan 2023 00:00:00 +0000"),
    ("From", '"Ann O\'Neil, PhD" <ann.smith99@Mail.X.example>, bob@y.example'),
    ("To", "undisclosed-recipients:;"),
    ("Cc", "a@b.example, " * 30),
    ("Reply-To", "<other@elsewhere.example>"),
    ("Subject", "RE: WIN  100% FREE!!! $$$ now?"),
    ("Date", "Sun, 1 Jan 2023 00:00:00 -0500 (EST)"),
    ("Message-ID", "<20230101.ABC-123@x.example>"),
    ("In-Reply-To", "<1@y.example>"),
    ("References", "<1@y.example> <2@y.example>"),
    ("X-Mailer", "Microsoft Outlook Express 6.00.2900"),
    ("User-Agent", "Mutt/2.2.9 (2022-11-12)"),
    ("List-Id", "Talk about things <talk.lists.example.org>"),
    ("List-Unsubscribe", "<mailto:leave@lists.example.org>"),
    ("Precedence", "bulk"),
    ("X-Priority", "1 (Highest)"),
    ("Importance", "high"),
    ("DKIM-Signature", "v=1; a=rsa-sha256; d=x.example; s=mail; b=abc/def="),
    ("DKIM-Signature", "v=1; d=mail.Bücher.example; s = 2026 . a; i=@x.example; b=abc/def="),
    ("DomainKey-Signature", "a=rsa-sha1; q=dns; c=nofws; s=s1024; d=x.example;"),
    ("ARC-Seal", "i=1; a=rsa-sha256; cv=none; d=lists.example.org; s=arc; b=abc"),
    ("ARC-Authentication-Results", "i=1; lists.example.org; dkim=pass header.d=x.example"),
    ("X-Spam-Status", "Yes, score=9"),
    ("URL", "http://x.example/"),
    ("=odd", "a name that begins with the mark of a sum: 1"),
    ("x-" + "long" * 30, "a field with a long name"),
    ("X-Long", "word " * 200),
)

LINKS = (
    "http://www.Example.com/path/to-page_1/index.html?q=1 https://user:pw@sub.example.co.uk:8443/a%20b "
    "ftp://192.0.2.1/x http://3221225985/ http://%65xample.com/ http://[2001:db8::1]/ www.bare.example/x?y "
    "hxxp://0xc0000201/ http://xn--bcher-kva.example/ http://x.example" + "/long" * 100
)

HTML = (
    "<!DOCTYPE html><html><head><title>T</title><style>p{color:red}</style><script>var a=1</script></head><body>"
    '<p>Vi<b>ag</b>ra &amp; &#67;ialis &#x1F6DC; &eacute;t&eacute; &nope; <!-- hid<den --> <a href="http://z.example/'
    '?a=1&amp;b=2">click&nbsp;here</a><img src="cid:1"><table><tr><td>' + "x" * 60 + "</table>&#" + "6" * 50
)

WORDS = (
    "Plain words, CAPS and mixedCase; don't stop. e-mail user.name@host_1 100% $5.00 wow! "
    "a" * 3 + " " + "b" * 30 + " " + "longword-" * 60 + " under_score " + "0123456789" * 5
)

ENCODED_WORDS = (
    "=?utf-8?q?Ann_=C3=84?= <ann@x.example>",
    "=?UTF-8*de?B?RsO8ciBEaWNo?= =?utf-8?b?IDEwMCU=?= free",
    "=?iso-8859-1?Q?caf=E9?==?koi8-r?B?8NLJ18XU?= glued",
    "a=?utf-8?q?b?=c =?x-none?q?=D2?= =?utf-8?x?no?= =?utf-8?q?open",
    "=?utf-8?q?white space?= =?utf-8?q?=?=?= =?utf-8?q?=?utf-8?q?in?=",
    "=?utf-8?b?broken*base64=?= =?utf-8?b?QUI?= =?utf-8?b?QUJD=?=",
    "=?" * 50 + "utf-8?q?late?=",
    "=?utf-8?q?" + "=41" * 400 + "?=",
)

PARAMETERS = (
    'text/plain; charset="utf-8"; format=flowed',
    'text/plain; charset=utf-8; name="quo\\"ted \\\\ back; slash"; x=\'y\'',
    "application/pdf; name*0*=utf-8'de'%46%C3%BC; name*1=\"r.pdf\"",
    "image/png; name*=iso-8859-1''caf%E9.PNG; name=other.png",
    'text/html; charset="unterminated',
    "TEXT/Plain ; ; = ; charset = koi8-r",
    "text/plain; charset*1=b; charset*0=a; charset*99999=z",
    "multipart/mixed",
    "application/octet-stream; name==?utf-8?q?=E4=B8=AD.exe?=",
)


def generated_mail() -> Iterator[tuple[str, bytes]]:
    """A name and a raw message with CRLF line ends, for each kind of message."""
    yield "empty", b""
    yield "header only", message(HEADERS, "")
    yield "all fields", message(HEADERS, WORDS + "\r\n" + LINKS)
    for number, text in enumerate(SCRIPTS):
        yield f"script {number}", message([("Subject", "x"), ("From", "a@b.example")], text)
        yield f"raw header {number}", message([("Subject", text), ("From", f'"{text}" <a@b.example>')], "x")
        yield f"bare text {number}", text.encode()
        packed = base64.b64encode(text.encode()).decode()
        yield f"encoded subject {number}", message([("Subject", f"=?utf-8?b?{packed}?=")], "x")
    for charset in charsets():
        yield f"charset {charset}", message([], in_charset(charset), f"text/plain; charset={charset}")
        word = base64.b64encode(in_charset(charset)[:300]).decode()
        yield f"word in {charset}", message([("Subject", f"=?{charset}?b?{word}?=")], "x")
    for number, word in enumerate(ENCODED_WORDS):
        fields = [("From", word), ("Subject", word), ("Message-ID", word), ("Date", word)]
        yield f"encoded word {number}", message(fields, "x")
        yield f"folded word {number}", message([(name, word.replace(" ", "\r\n\t")) for name, _ in fields], "x")
    for number, value in enumerate(PARAMETERS):
        yield f"parameters {number}", message([("Content-Disposition", value)], WORDS, value)
    yield "html", message([], HTML, "text/html; charset=utf-8")
    yield "html called plain", message([], HTML, "text/plain")
    yield "links", message([], LINKS)
    yield "words", message([], WORDS)
    yield "bare text", f"{WORDS} {LINKS} 12345 3.14".encode()
    for encoding in ("7bit", "8bit", "binary", "quoted-printable", "base64", "x-uuencode", ""):
        body = transfer_encoded(SCRIPTS[0].encode(), encoding)
        fields = [("Content-Transfer-Encoding", encoding)]
        yield f"encoding {encoding}", message(fields, body, "text/plain; charset=utf-8")
    yield "multipart", multipart(3)
    yield "many parts", multipart(300)
    yield "nested", nested(40)
    yield "attached message", message([], message(HEADERS, WORDS), "message/rfc822")
    yield "long", message([], (WORDS + "\r\n") * 3000)
    yield "line ends", message(HEADERS, WORDS).replace(b"\r\n", b"\n").replace(b"\n", b"\r", 3)
    yield "no colon", b"this is no field\r\n continued\r\nSubject: x\r\n\r\nbody\r\n"


def message(fields: object, body: str | bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    """A message with these fields (pairs of name and value) and this body."""
    assert isinstance(fields, (list, tuple))
    head = [*fields, ("Content-Type", content_type)]
    raw = "".join(f"{name}: {value}\r\n" for name, value in head).encode("utf-8", "surrogatepass")
    return raw + b"\r\n" + (body if isinstance(body, bytes) else body.encode())


def charsets() -> list[str]:
    """Every codec of Python that a message may name, and some names that Python does not know."""
    codecs = {name.replace("_", "-") for name in aliases.values()}
    codecs -= {"mbcs", "oem"}  # only Windows has these
    return sorted(codecs | {"x-unknown", "gb2312", "ks_c_5601-1987", "windows-874", "unicode-1-1-utf-7", "x-sjis"})


def in_charset(charset: str) -> bytes:
    """A text in this charset where Python can encode it, then every byte, alone and after a lead byte."""
    content = b""
    for text in SCRIPTS:
        try:
            content += text.encode(charset.replace("-", "_"), "ignore") + b"\r\n"
        except (LookupError, UnicodeError, ValueError, TypeError, AssertionError):
            continue
    all_bytes = bytes(byte for byte in range(256) if byte not in b"\r\n")
    return (
        content
        + all_bytes
        + b"\r\n"
        + b"".join(bytes([lead, byte, 32]) for lead in range(129, 255, 9) for byte in all_bytes)
    )


def transfer_encoded(content: bytes, encoding: str) -> bytes:
    """The content in this transfer encoding; unchanged where Python cannot write the encoding."""
    if encoding == "base64":
        return base64.encodebytes(content)
    return quopri.encodestring(content) if encoding == "quoted-printable" else content


def multipart(count: int) -> bytes:
    """A message with ``count`` parts: in turn a text, HTML, an image and a program."""
    kinds = (
        "text/plain; charset=koi8-r",
        "text/html",
        'image/gif; name="a.GIF"',
        "application/octet-stream; name=run.exe",
    )
    parts = [
        f"--b\r\nContent-Type: {kinds[i % 4]}\r\nContent-Disposition: attachment; filename=f{i}.doc\r\n\r\n"
        f"part {i} <b>{LINKS[: 40 + i % 7]}</b>\r\n"
        for i in range(count)
    ]
    return message(
        [("MIME-Version", "1.0")],
        "preamble\r\n" + "".join(parts) + "--b--\r\nend",
        'multipart/mixed; boundary="b"',
    )


def nested(depth: int) -> bytes:
    """Multiparts within each other, and a text in the innermost."""
    body = b"Content-Type: text/plain\r\n\r\ninnermost\r\n"
    for level in range(depth):
        boundary = b"n%d" % level
        body = b"Content-Type: multipart/mixed; boundary=%s\r\n\r\n--%s\r\n%s\r\n--%s--\r\n" % (
            boundary,
            boundary,
            body,
            boundary,
        )
    return b"Subject: nested\r\n" + body
