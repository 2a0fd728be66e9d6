//! Random values, and many ways to write one down.

use partita_model::{Entropy, Number, Object, SeededEntropy, Value};
use proptest::collection::vec;
use proptest::prelude::*;

/// Names that meet often, some of which must be escaped or quoted somewhere.
pub(crate) fn name() -> impl Strategy<Value = String> {
    const NAMES: [&str; 13] =
        ["a", "b", "c", "0", "1", "-", "", "a/b", "m~n", "é\"\\", "\u{1}\n", "😀", "_ts"];
    prop_oneof![4 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned), 1 => ".{0,12}"]
}

pub(crate) fn number() -> impl Strategy<Value = Number> {
    let doubles = prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO;
    prop_oneof![
        (-1000_i64..1000).prop_map(Number::Int),
        any::<i64>().prop_map(Number::Int),
        doubles.prop_map(Number::Double),
        (-100_i32..100).prop_map(|n| Number::Double(f64::from(n) / 4.0)),
    ]
}

pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number().prop_map(Value::Number),
        "\\PC{0,8}".prop_map(Value::String),
        name().prop_map(Value::String),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            object_of(inner).prop_map(Value::Object),
        ]
    })
}

pub(crate) fn object() -> impl Strategy<Value = Object> {
    object_of(value())
}

fn object_of(member: impl Strategy<Value = Value>) -> impl Strategy<Value = Object> {
    vec((name(), member), 0..6).prop_map(Object::from_iter)
}

/// One of the many JSON texts of a value: with whitespace and needless escapes, by the seed.
pub(crate) fn messy_text(value: &Value, seed: u64) -> String {
    let mut messy = Messy { entropy: SeededEntropy::new(seed), out: String::new() };
    messy.space();
    messy.value(value);
    messy.space();
    messy.out
}

struct Messy {
    entropy: SeededEntropy,
    out: String,
}

impl Messy {
    fn below(&mut self, end: u64) -> u64 {
        self.entropy.next_u64() % end
    }

    fn space(&mut self) {
        while self.below(3) == 0 {
            let space = [" ", "\n", "\t", "\r"][self.below(4) as usize];
            self.out.push_str(space);
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            let must_escape = c < ' ' || c == '"' || c == '\\';
            if must_escape || self.below(6) == 0 {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    self.out.push_str(&format!("\\u{unit:04X}"));
                }
            } else {
                self.out.push(c);
            }
        }
        self.out.push('"');
    }

    fn number(&mut self, number: Number) {
        match (number, self.below(3)) {
            (Number::Double(double), 0) => self.out.push_str(&format!("{double:e}")),
            (Number::Double(double), 1) => self.out.push_str(&format!("{double:E}")),
            (number, _) => self.out.push_str(&number.to_string()),
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Number(number) => self.number(*number),
            Value::Array(elements) => {
                self.out.push('[');
                self.space();
                for (at, element) in elements.iter().enumerate() {
                    self.comma(at);
                    self.value(element);
                    self.space();
                }
                self.out.push(']');
            }
            Value::Object(object) => {
                self.out.push('{');
                self.space();
                for (at, (name, member)) in object.iter().enumerate() {
                    self.comma(at);
                    self.string(name);
                    self.space();
                    self.out.push(':');
                    self.space();
                    self.value(member);
                    self.space();
                }
                self.out.push('}');
            }
            word => self.out.push_str(&word.to_json()),
        }
    }

    fn comma(&mut self, at: usize) {
        if at > 0 {
            self.out.push(',');
            self.space();
        }
    }
}
