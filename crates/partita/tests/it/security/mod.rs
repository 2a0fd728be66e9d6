//! Who may do what, who sees what, and that no secret is told.

mod access;
mod issuers;
mod scraping;
mod secrets;
