//! What SGLang prints (SGLang specification section 8).

pub mod captures;
pub mod fields;
pub mod steps;
