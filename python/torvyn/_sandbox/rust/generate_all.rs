//! `wit_bindgen` with `generate_all` added to every `generate!`: the contracts consist of several packages, and the
//! bindings of a world need those of the packages that it imports.
#![no_std]

pub use bindings::*;
#[doc(hidden)]
pub use bindings as __bindings;

#[macro_export]
macro_rules! generate {
    ({ $($option:tt)* }) => { $crate::__bindings::generate!({ generate_all, $($option)* }); };
    ($($option:tt)*) => { $crate::__bindings::generate!($($option)*); };
}
