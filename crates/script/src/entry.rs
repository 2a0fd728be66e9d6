//! From a script's text to the function that is called.
//!
//! A text is one of two things: an expression whose value is the function (`function (a) { … }`,
//! `(a) => …`, `async function …`), or a script whose first function is the entry
//! (`function main() { … } function other() { … }`, `const main = (a) => …; …`). The first is tried
//! first. A text that is neither is refused with the place of its error.

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Function, Value};

use crate::bridge::{JsResult, throw};

/// The function of a text, with everything that the text defines around it.
pub(crate) fn load<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> JsResult<Function<'js>> {
    refuse_nul(ctx, source)?;
    let value = if is_expression(ctx, name, source) {
        evaluate(ctx, name, &wrapped("", source, ""))?
    } else {
        evaluate(ctx, name, source)?;
        match first_name(source) {
            Some(first) => evaluate(ctx, name, first)?,
            None => return Err(no_function(ctx)),
        }
    };
    match value.as_function() {
        Some(function) => Ok(function.clone()),
        None => Err(no_function(ctx)),
    }
}

/// Compiles a text without running any of it.
pub(crate) fn check(ctx: &Ctx<'_>, name: &str, source: &str) -> JsResult<()> {
    refuse_nul(ctx, source)?;
    let expression = compile_expression(ctx, name, source);
    if expression.is_ok() {
        return Ok(());
    }
    if starts_as_expression(source) {
        return expression;
    }
    ctx.catch();
    // A function that holds the script, and is never called.
    evaluate(ctx, name, &format!("(function () {{{source}\n}})"))?;
    if first_name(source).is_none() { Err(no_function(ctx)) } else { Ok(()) }
}

fn is_expression(ctx: &Ctx<'_>, name: &str, source: &str) -> bool {
    let compiles = compile_expression(ctx, name, source).is_ok();
    if !compiles {
        ctx.catch();
    }
    compiles
}

/// A function that would give the expression, and is never called.
fn compile_expression(ctx: &Ctx<'_>, name: &str, source: &str) -> JsResult<()> {
    evaluate(ctx, name, &wrapped("() => ", source, "")).map(|_| ())
}

/// The text in parentheses, without the semicolon that many write behind a function.
fn wrapped(before: &str, source: &str, after: &str) -> String {
    let source = source.trim_end_matches([';', ' ', '\t', '\r', '\n']);
    format!("{before}({source}\n){after}")
}

fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> JsResult<Value<'js>> {
    let mut options = EvalOptions::default();
    // Scripts for the service are old, and say themselves if they mean to be strict.
    options.strict = false;
    options.filename = Some(name.replace('\0', "") + ".js");
    ctx.eval_with_options(source, options)
}

fn refuse_nul(ctx: &Ctx<'_>, source: &str) -> JsResult<()> {
    if source.contains('\0') {
        return Err(throw(ctx, 400, "The script contains a NUL character."));
    }
    Ok(())
}

fn no_function(ctx: &Ctx<'_>) -> rquickjs::Error {
    throw(ctx, 400, "The script has no function that could be called.")
}

/// Can the text only be an expression? Then its error as such is the one to tell.
fn starts_as_expression(source: &str) -> bool {
    let mut words = Words::of(source);
    match (words.next(), words.next()) {
        (Some("function"), Some("(")) | (Some("("), _) => true,
        (Some("async"), Some("function")) => words.next() == Some("("),
        _ => false,
    }
}

/// The name of the first function of a script: of a declaration, or of what it is assigned to.
fn first_name(source: &str) -> Option<&str> {
    let mut words = Words::of(source);
    let mut assigned = None;
    let mut before = "";
    while let Some(word) = words.next() {
        match word {
            "function" => {
                let next =
                    words.next().map(|next| if next == "*" { words.next() } else { Some(next) });
                let declared = next.flatten().filter(|next| *next != "(");
                return if assigned.is_some() { assigned } else { declared };
            }
            "=>" => return assigned,
            ";" => assigned = None,
            _ if matches!(before, "var" | "let" | "const") => assigned = Some(word),
            _ => {}
        }
        before = word;
    }
    None
}

/// The words and signs of a text, without its comments and strings. Regular expressions are not
/// told from divisions; before the first function there are none in any script that makes sense.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn of(source: &'a str) -> Words<'a> {
        Words { rest: source }
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{FEFF}');
            self.rest = if let Some(comment) = rest.strip_prefix("//") {
                comment
                    .split_once(['\n', '\r', '\u{2028}', '\u{2029}'])
                    .map_or("", |(_, rest)| rest)
            } else if let Some(comment) = rest.strip_prefix("/*") {
                comment.split_once("*/").map_or("", |(_, rest)| rest)
            } else {
                self.rest = rest;
                return;
            };
        }
    }

    /// Skips a string, if one begins here.
    fn skip_string(&mut self) -> bool {
        let mut chars = self.rest.char_indices();
        let Some((_, quote @ ('"' | '\'' | '`'))) = chars.next() else { return false };
        while let Some((at, char)) = chars.next() {
            if char == '\\' {
                chars.next();
            } else if char == quote {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return true;
            }
        }
        self.rest = "";
        true
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.skip_blank();
            if !self.skip_string() {
                break;
            }
        }
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let length = match self.rest.chars().next()? {
            first if part(first) => self.rest.find(|c| !part(c)).unwrap_or(self.rest.len()),
            _ if self.rest.starts_with("=>") => 2,
            first => first.len_utf8(),
        };
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(word)
    }
}
