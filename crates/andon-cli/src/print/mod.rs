//! How text gets onto the terminal: plain, styled, wrapped, and only through [`out`].

mod flow;
pub(crate) mod out;
mod plain;
mod style;
mod table;
pub(crate) mod when;
mod width;

pub(crate) use flow::Flow;
pub(crate) use out::{aside, write, write_line};
pub(crate) use plain::{plain, plain_line};
pub(crate) use style::Style;
pub(crate) use table::{Cell, Table};
pub(crate) use width::{columns, text_columns};
