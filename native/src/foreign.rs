//! What this library asks of Python: text in rare charsets, header fields and links with characters beyond ASCII where
//! a rule needs more than the tables have, and results of authentication.

/// The message is handed back as a whole: Python takes it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandBack;

/// A question to Python. The numbers are those of `nbn_question` in `nbstream/engine/interface.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Question {
    /// Arguments: the raw value of a header field. Answer: the text that counts for the key, in UTF-8.
    KeyField = 1,
    /// Arguments: name (lower case) and raw value of a header field, Received too. Answer: its tokens.
    FieldTokens = 3,
    /// Arguments: name (lower case) and raw value of the first field of each name that `relation_tokens` reads.
    /// Answer: the tokens of `relation_tokens`.
    RelationTokens = 4,
    /// Arguments: the raw values of the Content-Type and Content-Disposition of a part (each may be empty).
    /// Answer: the tokens of its file name.
    FileNameTokens = 5,
    /// Arguments: payload of a text part, and its charset where it has one. Answer: the text in lower case, in UTF-8,
    /// as one piece.
    LowerText = 6,
    /// Arguments: name (lower case) and raw value of each Received and Authentication-Results field, in order.
    /// Answer: the tokens of `authentication_tokens`.
    AuthenticationTokens = 7,
    /// Arguments: a bare text. Answer: the tokens of how it is written.
    BareTextTokens = 8,
    /// Arguments: a link. Answer: its tokens.
    LinkTokens = 9,
    /// Arguments: pieces of a text beyond ASCII, separated by line feeds, and how many characters may still be folded
    /// of the message, in decimal digits. Answer: the pieces folded, and how many characters are left then.
    FoldedPieces = 10,
}

/// Whoever answers: Python behind the boundary, or a stub in the tests.
pub trait Foreign {
    /// Returns the answer in pieces; `HandBack` where there is none.
    fn ask(&mut self, question: Question, arguments: &[&[u8]]) -> Result<Vec<Vec<u8>>, HandBack>;
}

/// Answers no question, for tests of what needs none.
#[cfg(test)]
pub struct NoAnswers;

#[cfg(test)]
impl Foreign for NoAnswers {
    fn ask(&mut self, _: Question, _: &[&[u8]]) -> Result<Vec<Vec<u8>>, HandBack> {
        Err(HandBack)
    }
}
