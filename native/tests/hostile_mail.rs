//! Messages that are broken on purpose are taken apart without a panic, and within the limits.
//!
//! A library that is called hides a panic: the message is handed back. Here it fails a test.

use nbstream_native::foreign::{Foreign, HandBack, Question};
use nbstream_native::mail::message::Message;
use nbstream_native::mail::mime::Limits;
use nbstream_native::tokens::tokenizer::{tokenize, TokenizerOptions};

const MESSAGES: usize = 3000;
const MAX_TOKENS: usize = 300;

const SEED: &str = "Return-Path: <a@example.org>\r\nReceived: from a.example ([192.0.2.1]) by mx.example.net; x\r\n\
    Authentication-Results: mx.example.net; spf=pass smtp.mailfrom=a@example.org\r\n\
    From: \"Ann \u{e9}\" <ann@example.org>\r\nTo: b@example.net, c@example.net\r\nSubject: =?utf-8?q?caf=C3=A9?= x\r\n\
    Date: Sat, 21 Nov 2026 10:00:00 +0100\r\nMessage-ID: <1@example.org>\r\nX-Mailer: Some Program 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html; charset=iso-8859-1\r\n\
    Content-Transfer-Encoding: quoted-printable\r\n\r\n<b>V</b>ia &amp; =E9 <a href=3D'http://www.a.example/x?y=3D1'>\r\n\
    --b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nU3ViamVjdDogeAoKYQ==\r\n\
    --b\r\nContent-Disposition: attachment; filename*0*=utf-8''%c3%a4; filename*1=.exe\r\n\r\n\u{ff26}\u{301} \u{4e2d}\r\n--b--\r\n";

const PIECES: [&[u8]; 40] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b"=",
    b"=\r\n",
    b"=?utf-8?b?",
    b"=?gb2312?q?=C4=E3?=",
    b"?=",
    b"--b",
    b"\r\n--b--",
    b"\r\n--b\r\n",
    b";",
    b"\"",
    b"\\",
    b":",
    b"@",
    b".",
    b"%41",
    b"&#",
    b"&#x1F600;",
    b"&nbsp",
    b"<",
    b"</",
    b"<!--",
    b"-->",
    b"<script>",
    b"http://",
    b"//",
    b"[",
    b"(",
    b" ",
    b"\xff",
    b"\xc3",
    "\u{130}".as_bytes(),
    "\u{fdfa}".as_bytes(),
    "\u{1f6dc}".as_bytes(),
    b"charset=utf-16",
    b"Content-Type: multipart/digest; boundary=b\r\n",
];

/// Answers with what it is asked, as far as that is UTF-8.
struct Echo;

impl Foreign for Echo {
    fn ask(&mut self, question: Question, arguments: &[&[u8]]) -> Result<Vec<Vec<u8>>, HandBack> {
        let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned().into_bytes();
        match question {
            Question::FoldedPieces => {
                Ok(arguments.iter().map(|content| content.to_vec()).collect())
            }
            _ => Ok(arguments
                .first()
                .map(|content| text(content))
                .into_iter()
                .collect()),
        }
    }
}

/// Numbers that look random: xorshift (Marsaglia 2003).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn broken_message(draw: &mut Draw) -> Vec<u8> {
    let mut raw = SEED.as_bytes().to_vec();
    for _ in 0..draw.below(8) + 1 {
        let start = draw.below(raw.len() + 1);
        let end = (start + [0, 1, 10, 200][draw.below(4)]).min(raw.len());
        let piece = match draw.below(4) {
            0 => Vec::new(),
            1 => raw[start..end].repeat([1, 2, 30][draw.below(3)]),
            2 => PIECES[draw.below(PIECES.len())].repeat(draw.below(3)),
            _ => (start..end).map(|_| draw.below(256) as u8).collect(),
        };
        raw.splice(start..end, piece);
    }
    raw
}

#[test]
fn broken_messages_are_taken_apart_within_the_limits() {
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let mut taken = 0;
    for _ in 0..MESSAGES {
        let raw = broken_message(&mut draw);
        let limits = Limits {
            look_bytes: [1 << 20, 66_000, 400, 0][draw.below(4)],
            max_parts: [200, 3, 1][draw.below(3)],
            max_depth: [20, 1, 0][draw.below(3)],
        };
        let message = match Message::parse(&raw, limits, draw.below(20) == 0) {
            Ok(message) => message,
            Err(HandBack) => continue,
        };
        assert!((1..=limits.max_parts).contains(&message.parts.len()));
        assert!(message
            .parts
            .iter()
            .all(|part| part.depth <= limits.max_depth));
        let payloads: usize = message.parts.iter().map(|part| part.payload.len()).sum();
        assert!(payloads <= raw.len());
        let options = TokenizerOptions {
            max_tokens: MAX_TOKENS,
            has_trusted_servers: draw.below(2) == 0,
        };
        message.key(&mut Echo).unwrap();
        if let Ok(tokens) = tokenize(&message, &options, &mut Echo) {
            assert!(tokens.sizes().iter().sum::<usize>() <= MAX_TOKENS);
            taken += 1;
        }
    }
    assert!(
        taken > MESSAGES / 2,
        "only {taken} messages were taken apart"
    );
}
