//! What a client sends as a script.

use std::sync::Arc;

use partita_model::{Error, Result, ScriptKind, Value, check_resource_name};

use crate::catalog::{Trigger, TriggerMoment, TriggerOperation};

/// A script as it was sent, with everything checked that needs no runtime.
#[derive(Debug)]
pub(super) struct ScriptBody {
    pub(super) name: String,
    pub(super) source: Arc<str>,
    pub(super) trigger: Option<Trigger>,
}

impl ScriptBody {
    pub(super) fn parse(kind: ScriptKind, body: &Value) -> Result<ScriptBody> {
        let name = text(kind, body, "id")?;
        check_resource_name(kind.name(), name)?;
        Ok(ScriptBody {
            name: name.to_owned(),
            source: Arc::from(text(kind, body, "body")?),
            trigger: (kind == ScriptKind::Trigger).then(|| trigger(body)).transpose()?,
        })
    }
}

fn trigger(body: &Value) -> Result<Trigger> {
    let moment_text = text(ScriptKind::Trigger, body, "triggerType")?;
    let moment = TriggerMoment::parse(moment_text).ok_or_else(|| {
        Error::bad_request(format!("The triggerType '{moment_text}' is invalid: use Pre or Post"))
    })?;
    let operation_text = text(ScriptKind::Trigger, body, "triggerOperation")?;
    let operation = TriggerOperation::parse(operation_text).ok_or_else(|| {
        Error::bad_request(format!(
            "The triggerOperation '{operation_text}' is invalid: use All, Create, Update, Upsert, \
             Replace or Delete"
        ))
    })?;
    let (moment_text, operation_text) = (moment_text.to_owned(), operation_text.to_owned());
    Ok(Trigger { moment, operation, moment_text, operation_text })
}

fn text<'a>(kind: ScriptKind, body: &'a Value, name: &str) -> Result<&'a str> {
    match body.get(name) {
        None => Err(Error::bad_request(format!(
            "The input content is invalid because the required properties - '{name}; ' - are \
             missing"
        ))),
        Some(value) => value.as_str().ok_or_else(|| {
            Error::bad_request(format!(
                "The property '{name}' of a {} must be a string",
                kind.name()
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_say_what_is_wrong_with_them() {
        let refused = |kind, text: &str| {
            let body = Value::parse(text.as_bytes()).unwrap();
            ScriptBody::parse(kind, &body).unwrap_err().message
        };
        for (kind, body, word) in [
            (ScriptKind::Procedure, r#"{"body":"x"}"#, "'id; '"),
            (ScriptKind::Procedure, r#"{"id":"a"}"#, "'body; '"),
            (ScriptKind::Function, r#"{"id":"a","body":1}"#, "must be a string"),
            (ScriptKind::Function, r#"{"id":"a/b","body":"x"}"#, "'/'"),
            (ScriptKind::Trigger, r#"{"id":"a","body":"x"}"#, "'triggerType; '"),
            (ScriptKind::Trigger, r#"{"id":"a","body":"x","triggerType":"in"}"#, "'in'"),
            (
                ScriptKind::Trigger,
                r#"{"id":"a","body":"x","triggerType":"pre","triggerOperation":"Read"}"#,
                "'Read'",
            ),
        ] {
            let message = refused(kind, body);
            assert!(message.contains(word), "{body}: {message}");
        }
    }

    #[test]
    fn the_words_of_a_trigger_are_kept_as_they_were_sent() {
        let body = r#"{"id":"a","body":"x","triggerType":"pRe","triggerOperation":"UPDATE"}"#;
        let body = Value::parse(body.as_bytes()).unwrap();
        let trigger = ScriptBody::parse(ScriptKind::Trigger, &body).unwrap().trigger.unwrap();
        assert_eq!((trigger.moment_text.as_str(), trigger.moment), ("pRe", TriggerMoment::Pre));
        assert_eq!(trigger.operation_text, "UPDATE");
        assert_eq!(trigger.operation, TriggerOperation::Update);
    }
}
