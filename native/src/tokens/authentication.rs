//! Leaves the results of authentication that our own server found to Python: few configurations name such servers.

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::header_fields::HeaderField;
use crate::tokens::encoding::push_encoded;
use crate::tokens::token_list::TokenList;

/// Appends the tokens for the results in `fields`, the header of a message, that a trusted server wrote.
///
/// This is called where the options name trusted servers. Returns `HandBack` where Python has no answer.
pub fn authentication_tokens(
    fields: &[HeaderField],
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Result<(), HandBack> {
    let is_result = |field: &HeaderField| &*field.name == b"authentication-results";
    if !fields.iter().any(is_result) {
        return Ok(());
    }
    let arguments: Vec<&[u8]> = fields
        .iter()
        .filter(|field| is_result(field) || &*field.name == b"received")
        .flat_map(|field| [&*field.name, &*field.value])
        .collect();
    let answer = foreign.ask(Question::AuthenticationTokens, &arguments)?;
    answer
        .iter()
        .for_each(|token| push_encoded(tokens, &[token]));
    Ok(())
}
