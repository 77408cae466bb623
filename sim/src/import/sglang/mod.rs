//! What SGLang prints (SGLang specification section 8).

pub mod captures;
pub mod command_line;
pub mod fields;
pub mod server;
pub mod steps;
