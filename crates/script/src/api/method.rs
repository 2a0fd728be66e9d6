//! How an object of the API gets its methods, and how a script's argument is told to be one.

use std::rc::Rc;

use rquickjs::function::Rest;
use rquickjs::{Ctx, Function, Object, Value};

use crate::bridge::JsResult;
use crate::run::Run;

/// Gives an object a method of ours. It must not hold values of the heap.
pub(super) fn method<'js, F>(
    ctx: &Ctx<'js>,
    object: &Object<'js>,
    name: &str,
    run: &Rc<Run>,
    work: F,
) -> JsResult<()>
where
    F: for<'a> Fn(&'a Ctx<'js>, &'a Rc<Run>, &'a [Value<'js>]) -> JsResult<Value<'js>> + 'js,
{
    let run = Rc::clone(run);
    let function =
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, arguments: Rest<Value<'js>>| {
            work(&ctx, &run, &arguments.0)
        })?;
    function.set_name(name)?;
    object.set(name, function)
}

/// Is this the collection object, or one that is made from it?
pub(super) fn is_collection(value: &Value<'_>) -> bool {
    value.as_object().is_some_and(|object| {
        object.get::<_, Value<'_>>("getSelfLink").is_ok_and(|method| method.is_function())
    })
}
