// Runs in every heap before the script. Takes hold of what it uses, so that a script that changes
// built-in objects later changes nothing here. Kept short: it is compiled anew for every run.
(function () {
  'use strict';
  const Native = Error;
  const { construct } = Reflect;
  const { captureStackTrace } = Native;

  // `new Error(number, message)`: scripts for the service rely on it, the language has no such
  // thing. All other errors are made as ever.
  const handler = {
    construct: function make(target, given, made) {
      const number = given[0];
      const numbered = typeof number === 'number';
      const error = construct(target, numbered && given.length > 1 ? [given[1]] : given, made);
      if (numbered) error.number = number;
      captureStackTrace(error, make);
      return error;
    },
    apply: (target, self, given) => construct(Numbered, given),
  };
  const Numbered = new Proxy(Native, handler);
  Native.prototype.constructor = Numbered;
  globalThis.Error = Numbered;

  globalThis.ErrorCodes = Object.freeze({
    BadRequest: 400,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    PreconditionFailed: 412,
    RequestEntityTooLarge: 413,
    RetryWith: 449,
    InternalServerError: 500,
  });

  return (value) => () => value;
})();
