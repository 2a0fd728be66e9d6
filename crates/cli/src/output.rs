//! Standard output. Whoever closed it does not want the rest, so errors are ignored.

use std::io::Write;

use partita_model::Value;

pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

pub(crate) fn print_json(value: &Value) {
    print(&format!("{}\n", value.to_json()));
}
