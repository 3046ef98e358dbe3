//! `wit_bindgen` for a crate whose `generate!` does not say `generate_all`: the bindings of a world need those of the
//! packages that it imports, and the contracts are several packages.
#![no_std]

pub use bindings::*;
#[doc(hidden)]
pub use bindings as __bindings;

#[macro_export]
macro_rules! generate {
    ({ $($option:tt)* }) => { $crate::__bindings::generate!({ generate_all, $($option)* }); };
    ($($option:tt)*) => { $crate::__bindings::generate!($($option)*); };
}
