//! `nbn_tokenize`: the bytes of a message become its key and its tokens.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::message::{Key, Message};
use crate::mail::mime::Limits;
use crate::tokens::tokenizer::{tokenize, TokenizerOptions, Tokens};

/// The caller takes the message apart.
const HANDED_BACK: i64 = -1;
const IS_MAIL: u32 = 1;
/// Flags, three sizes, the key.
const HEAD_BYTES: usize = 4 * 4 + 24;

/// `nbn_tokenize_options` of the interface.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TokenizeOptions {
    look_bytes: u64,
    max_parts: u64,
    max_depth: u64,
    max_tokens: u64,
    is_bare_text: u32,
    has_trusted_servers: u32,
}

/// `nbn_ask` of the interface.
type Ask = extern "C" fn(
    answer: *mut c_void,
    question: u32,
    arguments: *const *const u8,
    lengths: *const usize,
    count: usize,
);

/// Takes a message apart; see the interface.
///
/// # Safety
///
/// `raw` points to `length` bytes, `output` to `capacity` bytes that nobody else uses, and `options` to options; all
/// of them stay valid for the call. `ask` may be called by this thread during the call.
#[no_mangle]
pub unsafe extern "C" fn nbn_tokenize(
    raw: *const u8,
    length: usize,
    options: *const TokenizeOptions,
    ask: Ask,
    output: *mut u8,
    capacity: usize,
) -> i64 {
    if raw.is_null() || options.is_null() || output.is_null() {
        return HANDED_BACK;
    }
    // SAFETY: none of them is null, and the caller guarantees what they point to.
    let (raw, options, output) = unsafe {
        (
            std::slice::from_raw_parts(raw, length),
            // Python's bytes need not be aligned.
            options.read_unaligned(),
            std::slice::from_raw_parts_mut(output, capacity),
        )
    };
    // Nothing that a panic interrupts is used afterwards: all of it belongs to this call.
    let taken = catch_unwind(AssertUnwindSafe(|| read_and_tokenize(raw, &options, ask)));
    match taken {
        Ok(Ok(taken)) => taken.write(output) as i64,
        Ok(Err(HandBack)) | Err(_) => HANDED_BACK,
    }
}

/// What a message consists of.
struct Tokenized {
    is_mail: bool,
    key: Key,
    tokens: Tokens,
}

fn read_and_tokenize(
    raw: &[u8],
    options: &TokenizeOptions,
    ask: Ask,
) -> Result<Tokenized, HandBack> {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = Limits {
        look_bytes: size(options.look_bytes),
        max_parts: size(options.max_parts),
        max_depth: size(options.max_depth),
    };
    let tokenizer_options = TokenizerOptions {
        max_tokens: size(options.max_tokens),
        has_trusted_servers: options.has_trusted_servers != 0,
    };
    let foreign = &mut Caller { ask };
    let message = Message::parse(raw, limits, options.is_bare_text != 0)?;
    Ok(Tokenized {
        is_mail: message.is_mail(),
        key: message.key(foreign)?,
        tokens: tokenize(&message, &tokenizer_options, foreign)?,
    })
}

impl Tokenized {
    /// Writes all of it to `output` if it fits, and returns how many bytes it needs.
    fn write(&self, output: &mut [u8]) -> usize {
        let groups = self.tokens.lines();
        let lines = groups.iter().map(|lines| lines.len()).sum::<usize>();
        // The tokens are separated by line feeds: behind the last one there is none.
        let needed = HEAD_BYTES + lines.saturating_sub(1);
        if needed > output.len() {
            return needed;
        }
        let flags = if self.is_mail { IS_MAIL } else { 0 };
        let mut content = Vec::with_capacity(needed + 1);
        content.extend(u32::to_ne_bytes(flags));
        for size in self.tokens.sizes() {
            content.extend((size as u32).to_ne_bytes());
        }
        content.extend(self.key);
        groups.iter().for_each(|lines| content.extend(*lines));
        output[..needed].copy_from_slice(&content[..needed]);
        needed
    }
}

/// Whoever called this library, who answers what it does not know.
struct Caller {
    ask: Ask,
}

/// The answer to one question; empty until it was given.
#[derive(Default)]
struct Answer {
    content: Option<Vec<u8>>,
}

impl Foreign for Caller {
    fn ask(&mut self, question: Question, arguments: &[&[u8]]) -> Result<Vec<Vec<u8>>, HandBack> {
        let pointers: Vec<*const u8> = arguments.iter().map(|content| content.as_ptr()).collect();
        let lengths: Vec<usize> = arguments.iter().map(|content| content.len()).collect();
        let mut answer = Answer::default();
        (self.ask)(
            (&mut answer as *mut Answer).cast(),
            question as u32,
            pointers.as_ptr(),
            lengths.as_ptr(),
            arguments.len(),
        );
        let content = answer.content.ok_or(HandBack)?;
        if question == Question::LowerText {
            return Ok(vec![content]);
        }
        let lines = content
            .strip_suffix(b"\n")
            .map(|lines| lines.split(|byte| *byte == b'\n'));
        Ok(lines.into_iter().flatten().map(<[u8]>::to_vec).collect())
    }
}

/// Gives the answer to a question that `nbn_tokenize` asks; see the interface.
///
/// # Safety
///
/// `answer` is that of the question, which the caller still has to answer, and `content` points to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn nbn_answer(answer: *mut c_void, content: *const u8, length: usize) {
    if answer.is_null() || content.is_null() {
        return;
    }
    // SAFETY: `ask` made the pointer from an `Answer` that lives until the question is answered, and uses it only
    // afterwards; the caller guarantees the content.
    let (answer, content) = unsafe {
        (
            &mut *answer.cast::<Answer>(),
            std::slice::from_raw_parts(content, length),
        )
    };
    answer.content = Some(content.to_vec());
}
