//! `#[derive(Payload)]`: the kind of a payload and the defaults of its jobs as attributes.
//!
//! The crate `redrive` exports and documents it.

mod attributes;
mod expand;

use proc_macro::TokenStream;

/// Implements `redrive::Payload` by the attributes `#[payload(…)]`.
#[proc_macro_derive(Payload, attributes(payload))]
pub fn payload(input: TokenStream) -> TokenStream {
    let expanded = syn::parse(input).and_then(|input| expand::expand(&input));
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
