//! Message to tokens: collects the tokens of the other modules in a fixed order, within bounds.

use std::borrow::Cow;

use crate::foreign::{Foreign, HandBack};
use crate::mail::bytes::up_to;
use crate::mail::message::Message;
use crate::mail::mime::MimePart;
use crate::tokens::authentication::authentication_tokens;
use crate::tokens::encoding::push_encoded;
use crate::tokens::header_tokens::{header_tokens, sender_fields};
use crate::tokens::html::{self, References};
use crate::tokens::lower_text::lower_text;
use crate::tokens::raw_header::raw_header_tokens;
use crate::tokens::structure::{bare_text_tokens, file_type, structure_tokens};
use crate::tokens::token_list::TokenList;
use crate::tokens::unicode;
use crate::tokens::urls::{self, find_links, push_link_tokens};
use crate::tokens::words::{distinct_words, spread_choice, WordAllowance};

/// The prefix of the words of texts.
const BODY: &[u8] = b"body:";

/// At most `max_tokens` distinct tokens are made of a message. `has_trusted_servers` is whether the results of
/// authentication of some servers are read.
#[derive(Debug, Clone, Copy)]
pub struct TokenizerOptions {
    pub max_tokens: usize,
    pub has_trusted_servers: bool,
}

/// The distinct tokens of a message, in the three groups from which clues are chosen: of `head` the first `head_size`.
#[derive(Debug)]
pub struct Tokens {
    head: TokenList,
    head_size: usize,
    body: TokenList,
    raw_header: TokenList,
}

impl Tokens {
    /// How many tokens the groups have: head, body, then the header as it is written.
    pub fn sizes(&self) -> [usize; 3] {
        [self.head_size, self.body.len(), self.raw_header.len()]
    }

    /// The tokens of the groups, each token followed by a line feed.
    pub fn lines(&self) -> [&[u8]; 3] {
        [
            self.head.lines(self.head_size),
            self.body.lines(self.body.len()),
            self.raw_header.lines(self.raw_header.len()),
        ]
    }
}

/// Returns the tokens of `message`, in their groups.
pub fn tokenize(
    message: &Message,
    options: &TokenizerOptions,
    foreign: &mut dyn Foreign,
) -> Result<Tokens, HandBack> {
    let sender_fields = sender_fields(message.fields());
    let raw_header = if message.is_mail() {
        raw_header_tokens(&sender_fields, options.max_tokens / 4)
    } else {
        TokenList::new()
    };
    let limit = options.max_tokens - raw_header.len();
    let mut head = TokenList::distinct();
    if !message.is_mail() {
        push_encoded(&mut head, &[b"fields:none"]);
        bare_text_tokens(bare_text(message), foreign, &mut head)?;
    } else {
        if options.has_trusted_servers {
            authentication_tokens(message.fields(), foreign, &mut head)?;
        }
        header_tokens(message.fields(), &sender_fields, foreign, &mut head)?;
        structure_tokens(&message.parts, foreign, &mut head)?;
    }
    let (body, hidden) = body_tokens(message, limit, foreign)?;
    for name in hidden {
        push_encoded(&mut head, &[b"hidden:", name.as_bytes()]);
    }
    // Head and body each have half of what is left: else 34 long To fields would leave nothing of the body.
    let head_limit = (limit - limit / 2).max(limit.saturating_sub(body.len()));
    let head_size = head.len().min(head_limit);
    Ok(Tokens {
        head,
        head_size,
        body: spread_choice(body, limit - head_size),
        raw_header,
    })
}

fn bare_text<'a>(message: &Message<'a>) -> &'a [u8] {
    up_to(message.raw, message.limits.look_bytes)
}

/// Returns the distinct tokens of words and links, in order, and what is hidden in the texts.
///
/// There are at most `limit` words of each text, and links.
fn body_tokens(
    message: &Message,
    limit: usize,
    foreign: &mut dyn Foreign,
) -> Result<(TokenList, Vec<&'static str>), HandBack> {
    let mut texts = BodyTexts {
        limit,
        tokens: TokenList::new(),
        hidden: Vec::new(),
        references: References::new(),
        allowance: WordAllowance::of_message(message.raw.len()),
        resolved_left: urls::MAX_RESOLVED_CHARACTERS,
    };
    if message.is_mail() {
        for part in &message.parts {
            if let Some(kind) = text_kind(part, foreign)? {
                let text = lower_text(&part.payload, part.charset.as_deref(), foreign)?;
                texts.push(&text, kind, foreign)?;
            }
        }
    } else {
        let text = lower_text(bare_text(message), None, foreign)?;
        texts.push(&text, TextKind::Plain, foreign)?;
    }
    let end = message.unread_end()?;
    if !end.is_empty() {
        let kind = match end.contains("</") {
            true => TextKind::Html,
            false => TextKind::Plain,
        };
        let text = lower_text(end.as_bytes(), None, foreign)?;
        texts.push(&text, kind, foreign)?;
    }
    Ok((texts.tokens, texts.hidden))
}

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Html,
    Plain,
}

const LOOKED_AT_BYTES: usize = 4096;

/// Returns how a part is read; None where it is not read.
fn text_kind(part: &MimePart, foreign: &mut dyn Foreign) -> Result<Option<TextKind>, HandBack> {
    if part.is_container {
        return Ok(None);
    }
    Ok(match part.content_type.as_slice() {
        b"text/html" | b"application/xhtml+xml" | b"image/svg+xml" => Some(TextKind::Html),
        b"application/octet-stream" | b"application/unknown" | b"application/x-unknown" => {
            let kind = match file_type(part, foreign)?.as_slice() {
                b"html" | b"htm" | b"shtml" | b"xhtml" | b"svg" => Some(TextKind::Html),
                b"txt" => Some(TextKind::Plain),
                _ => None,
            };
            let is_control = |byte: &u8| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
            let start = up_to(&part.payload, LOOKED_AT_BYTES);
            kind.filter(|_| !start.iter().any(is_control))
        }
        other if other.starts_with(b"text/") => Some(TextKind::Plain),
        _ => None,
    })
}

/// The tokens of the texts of a message, and what these texts share.
struct BodyTexts {
    limit: usize,
    tokens: TokenList,
    hidden: Vec<&'static str>,
    references: References,
    allowance: WordAllowance,
    resolved_left: usize,
}

impl BodyTexts {
    /// Appends the tokens of `text`, which is in lower case.
    fn push(
        &mut self,
        text: &str,
        kind: TextKind,
        foreign: &mut dyn Foreign,
    ) -> Result<(), HandBack> {
        let mut visible = Cow::Borrowed(text);
        if kind == TextKind::Html {
            visible = html::visible_text(text, &mut self.references);
            self.hidden.extend(html::hiding_styles(text));
        }
        if unicode::hides_characters(&visible) {
            self.hidden.push("characters");
        }
        let mut tokens = distinct_words(&visible, BODY, self.limit, &mut self.allowance, foreign)?;
        let mut link_tokens = TokenList::distinct();
        for link in find_links(text, self.resolved_left, &mut self.references).iter() {
            push_link_tokens(&mut link_tokens, link, foreign)?;
        }
        tokens.append(&link_tokens);
        // The tokens of one text are distinct: words and links are, and have different prefixes.
        self.tokens.unite(tokens);
        self.resolved_left = self.resolved_left.saturating_sub(unicode::length(text));
        Ok(())
    }
}
