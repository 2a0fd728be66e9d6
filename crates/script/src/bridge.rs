//! Values across the border.
//!
//! Documents cross as JSON text: the engine keeps texts, and JavaScript reads and writes them
//! natively, whatever a script did to `JSON`. Numbers become doubles, as JavaScript has no others:
//! an integer beyond 2^53 that a script reads and writes back is rounded. Strings keep lone
//! surrogates in documents, since texts carry them as escapes.

use partita_model::{Error, ErrorKind, Number, Value};
use rquickjs::function::Args;
use rquickjs::{
    Coerced, Ctx, Exception, Function, Object, Persistent, String as JsString, Value as JsValue,
};

/// A result that fails with a pending JavaScript exception.
pub(crate) type JsResult<T> = rquickjs::Result<T>;

/// A value that a run keeps outside of the heap.
pub(crate) type SavedValue = Persistent<JsValue<'static>>;

/// A function that a run keeps outside of the heap.
pub(crate) type SavedFunction = Persistent<Function<'static>>;

/// Reads a JSON text.
pub(crate) fn parse<'js>(ctx: &Ctx<'js>, text: &str) -> JsResult<JsValue<'js>> {
    ctx.json_parse(text)
}

/// The value as JSON text. None for what JSON has no word for: undefined, functions, symbols.
pub(crate) fn stringify<'js>(ctx: &Ctx<'js>, value: &JsValue<'js>) -> JsResult<Option<String>> {
    let Some(text) = ctx.json_stringify(value.clone())? else { return Ok(None) };
    text.to_string().map(Some)
}

/// A text as a value.
pub(crate) fn text<'js>(ctx: &Ctx<'js>, text: &str) -> JsResult<JsValue<'js>> {
    Ok(JsString::from_str(ctx.clone(), text)?.into_value())
}

/// A string as it is, with U+FFFD where it has half a character.
pub(crate) fn lossy<'js>(ctx: &Ctx<'js>, string: &JsString<'js>) -> JsResult<String> {
    match string.to_string() {
        Err(rquickjs::Error::Utf8(_)) => {
            let text = stringify(ctx, string.as_value())?.unwrap_or_default();
            let value = Value::parse(text.as_bytes()).ok();
            Ok(value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned())
        }
        known => known,
    }
}

/// A value as text, as the language makes it one.
pub(crate) fn display<'js>(ctx: &Ctx<'js>, value: &JsValue<'js>) -> JsResult<String> {
    lossy(ctx, &value.get::<Coerced<JsString<'js>>>()?.0)
}

/// What the language calls the type of a value.
pub(crate) fn type_name(value: &JsValue<'_>) -> &'static str {
    use rquickjs::Type;
    match value.type_of() {
        Type::Uninitialized | Type::Undefined => "undefined",
        Type::Bool => "boolean",
        Type::Int | Type::Float => "number",
        Type::String => "string",
        Type::Symbol => "symbol",
        Type::BigInt => "bigint",
        Type::Function | Type::Constructor => "function",
        _ => "object",
    }
}

/// Would `if (value)` be taken?
pub(crate) fn truthy(value: &JsValue<'_>) -> bool {
    if let Some(flag) = value.as_bool() {
        return flag;
    }
    if let Some(number) = value.as_number() {
        return number != 0.0 && !number.is_nan();
    }
    if let Some(string) = value.as_string() {
        return string.to_string().map_or(true, |text| !text.is_empty());
    }
    !(value.is_null() || value.is_undefined())
}

/// Throws an error with a number, as the API does for wrong calls.
pub(crate) fn throw(ctx: &Ctx<'_>, number: u16, message: &str) -> rquickjs::Error {
    match numbered(ctx, number, message) {
        Ok(error) => ctx.throw(error),
        Err(error) => error,
    }
}

/// An error object as callbacks get it: with the HTTP status and the text of the answer.
pub(crate) fn numbered<'js>(ctx: &Ctx<'js>, number: u16, message: &str) -> JsResult<JsValue<'js>> {
    let error = Exception::from_message(ctx.clone(), message)?.into_object();
    error.set("number", number)?;
    error.set("body", message)?;
    Ok(error.into_value())
}

/// Calls a function with these arguments.
pub(crate) fn call<'js>(
    ctx: &Ctx<'js>,
    function: &Function<'js>,
    arguments: impl IntoIterator<Item = JsValue<'js>>,
) -> JsResult<JsValue<'js>> {
    let mut args = Args::new_unsized(ctx.clone());
    for argument in arguments {
        args.push_arg(argument)?;
    }
    function.call_arg(args)
}

/// A value of the query language as an argument; none is undefined.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, value: Option<&Value>) -> JsResult<JsValue<'js>> {
    Ok(match value {
        None => JsValue::new_undefined(ctx.clone()),
        Some(Value::Null) => JsValue::new_null(ctx.clone()),
        Some(Value::Bool(flag)) => JsValue::new_bool(ctx.clone(), *flag),
        Some(Value::Number(number)) => JsValue::new_number(ctx.clone(), number.as_f64()),
        Some(Value::String(text)) => JsString::from_str(ctx.clone(), text)?.into_value(),
        Some(tree @ (Value::Array(_) | Value::Object(_))) => parse(ctx, &tree.to_json())?,
    })
}

/// What a function returned, for the query language. None: undefined, or nothing that JSON has.
pub(crate) fn from_js<'js>(
    ctx: &Ctx<'js>,
    value: &JsValue<'js>,
) -> JsResult<Result<Option<Value>, Error>> {
    if let Some(int) = value.as_int() {
        return Ok(Ok(Some(Value::Number(Number::Int(int.into())))));
    }
    if let Some(double) = value.as_float() {
        let finite = double.is_finite().then_some(Value::Number(Number::Double(double)));
        return Ok(Ok(finite));
    }
    if let Some(flag) = value.as_bool() {
        return Ok(Ok(Some(Value::Bool(flag))));
    }
    if let Some(string) = value.as_string() {
        return Ok(Ok(Some(Value::String(lossy(ctx, string)?))));
    }
    let Some(text) = stringify(ctx, value)? else { return Ok(Ok(None)) };
    Ok(Value::parse(text.as_bytes()).map(Some))
}

/// A member of an object, if it has it and it is not undefined.
pub(crate) fn member<'js>(object: &Object<'js>, name: &str) -> JsResult<Option<JsValue<'js>>> {
    let value: JsValue<'js> = object.get(name)?;
    Ok((!value.is_undefined()).then_some(value))
}

/// The number that a script sees for an error of its host: the HTTP status of its kind. None: it
/// is not the script's to handle, and ends the run.
pub(crate) fn status(kind: &ErrorKind) -> Option<u16> {
    Some(match kind {
        ErrorKind::BadRequest
        | ErrorKind::PartitionKeyMismatch
        | ErrorKind::ContainerRidMismatch
        | ErrorKind::NotServedDirectly { .. }
        | ErrorKind::PlanNotSupported
        | ErrorKind::ScriptFailed { .. } => 400,
        ErrorKind::Unauthenticated => 401,
        ErrorKind::Forbidden
        | ErrorKind::NotForRoles
        | ErrorKind::ActionNotGranted
        | ErrorKind::LogicalPartitionFull => 403,
        ErrorKind::NotFound | ErrorKind::OwnerNotFound => 404,
        ErrorKind::MethodNotAllowed => 405,
        ErrorKind::Conflict => 409,
        ErrorKind::PreconditionFailed => 412,
        ErrorKind::TooLarge | ErrorKind::ResponseTooLarge => 413,
        ErrorKind::FailedDependency => 424,
        ErrorKind::Unsupported => 501,
        ErrorKind::SessionNotAvailable
        | ErrorKind::NameStale
        | ErrorKind::RangeGone
        | ErrorKind::RangeMoving
        | ErrorKind::Throttled { .. }
        | ErrorKind::RetryWith
        | ErrorKind::Timeout
        | ErrorKind::Cancelled
        | ErrorKind::Unavailable
        | ErrorKind::DiskFull
        | ErrorKind::Corrupt
        | ErrorKind::Internal => return None,
    })
}
