//! Writes the implementation of `redrive::Payload`. Pure.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Expr, ExprLit, Fields, Lit, Result};

use crate::attributes::Attributes;

/// Returns the implementation for a type.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = Attributes::of(&input.attrs)?;
    let limits = quote!(::redrive::limits);
    let constants = [
        ("kind", quote!(const KIND: &str), false),
        (
            "queue",
            quote!(const QUEUE: ::std::option::Option<&str>),
            true,
        ),
        ("attempts", quote!(const ATTEMPTS: u32), false),
        ("priority", quote!(const PRIORITY: i16), false),
        ("version", quote!(const VERSION: u32), false),
        (
            "deadline",
            quote!(const DEADLINE: ::std::option::Option<::std::time::Duration>),
            true,
        ),
    ];
    let constants = constants
        .into_iter()
        .filter_map(|(key, declared, is_optional)| {
            let value = attributes.get(key)?;
            Some(match is_optional {
                true => {
                    quote_spanned!(value.span()=> #declared = ::std::option::Option::Some(#value);)
                }
                false => quote_spanned!(value.span()=> #declared = #value;),
            })
        });
    // Values out of range are errors here and not at the first enqueue.
    let checks = [
        ("kind", quote!(!VALUE.is_empty()), "a kind is not empty"),
        (
            "attempts",
            quote!(VALUE >= 1 && VALUE <= #limits::MAX_ATTEMPTS),
            "the attempts must be 1 to redrive::limits::MAX_ATTEMPTS",
        ),
        (
            "priority",
            quote!(VALUE >= -#limits::MAX_PRIORITY && VALUE <= #limits::MAX_PRIORITY),
            "the priority must be within redrive::limits::MAX_PRIORITY",
        ),
        ("version", quote!(VALUE >= 1), "versions count from 1"),
    ];
    let checks = checks.into_iter().filter_map(|(key, condition, why)| {
        let value = attributes.get(key)?;
        let kind = match key {
            "kind" => quote!(&str),
            "priority" => quote!(i16),
            _ => quote!(u32),
        };
        Some(quote_spanned! {value.span()=>
            const _: () = {
                const VALUE: #kind = #value;
                ::std::assert!(#condition, #why);
            };
        })
    });
    let backoff = attributes.get("backoff").map(|value| {
        quote_spanned! {value.span()=>
            fn backoff() -> ::std::option::Option<::redrive::Backoff> {
                ::std::option::Option::Some(#value)
            }
        }
    });
    let upgrade = attributes.get("upgrade").map(|function| {
        quote_spanned! {function.span()=>
            fn upgrade(
                from: u32,
                value: ::redrive::serde_json::Value,
            ) -> ::std::result::Result<::redrive::serde_json::Value, ::redrive::Failure> {
                (#function)(from, value)
            }
        }
    });
    let key = |method, value| {
        attributes
            .get(value)
            .map(|value| key(input, &method, value))
            .transpose()
    };
    let (unique, group) = (key(quote!(unique), "unique")?, key(quote!(group), "group")?);
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        #(#checks)*
        #[automatically_derived]
        impl #generics ::redrive::Payload for #name #arguments #conditions {
            #(#constants)*
            #backoff
            #upgrade
            #unique
            #group
        }
    })
}

/// Returns the method that makes a key of a job: by a format string of its fields, or by a function.
fn key(input: &DeriveInput, method: &TokenStream, value: &Expr) -> Result<TokenStream> {
    let made = match (value, &input.data) {
        (
            Expr::Lit(ExprLit {
                lit: Lit::Str(format),
                ..
            }),
            data,
        ) => {
            let fields = match data {
                Data::Struct(data) => match &data.fields {
                    Fields::Named(fields) => fields.named.iter().collect(),
                    Fields::Unnamed(_) | Fields::Unit => Vec::new(),
                },
                Data::Enum(_) | Data::Union(_) => Vec::new(),
            };
            let fields = fields.into_iter().filter_map(|field| field.ident.as_ref());
            quote_spanned! {value.span()=>
                #[allow(unused_variables)]
                #(let #fields = &self.#fields;)*
                ::std::option::Option::Some(::std::format!(#format))
            }
        }
        (Expr::Macro(_), _) => {
            let message = "expected a template such as `\"order-{order}\"`, or a function";
            return Err(Error::new_spanned(value, message));
        }
        (function, _) => quote_spanned!(value.span()=> (#function)(self)),
    };
    Ok(quote! {
        fn #method(&self) -> ::std::option::Option<::std::string::String> {
            #made
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: &str) -> Result<String> {
        let input = syn::parse_str(item)?;
        expand(&input).map(|tokens| tokens.to_string())
    }

    #[test]
    fn mistakes_are_errors_that_say_what_is_wanted() {
        for (attributes, why) in [
            ("", "needs a name in the database"),
            ("#[payload(queue = \"q\")]", "needs a name in the database"),
            (
                "#[payload(kind = \"k\", retries = 3)]",
                "must be one of kind, queue, attempts",
            ),
            (
                "#[payload(kind = \"k\", kind = \"l\")]",
                "`kind` is set twice",
            ),
            (
                "#[payload(kind = \"k\")] #[payload(kind = \"l\")]",
                "`kind` is set twice",
            ),
            (
                "#[payload(kind = \"k\", unique = format!(\"{a}\"))]",
                "expected a template such as `\"order-{order}\"`, or a function",
            ),
            ("#[payload(kind)]", "expected `=`"),
            ("#[payload(kind = )]", "expected an expression"),
            ("#[payload = \"k\"]", "expected parentheses"),
            (
                "#[payload(kind = \"k\", upgrade = up)]",
                "`upgrade` needs a `version`",
            ),
        ] {
            let error = expanded(&format!("{attributes} struct P {{ a: i64 }}")).unwrap_err();
            assert!(error.to_string().contains(why), "{attributes}: {error}");
        }
    }

    #[test]
    fn what_is_not_set_keeps_its_default() {
        let least = expanded("#[payload(kind = \"k\")] struct P;").unwrap();
        for other in ["QUEUE", "ATTEMPTS", "fn unique", "fn backoff", "fn upgrade"] {
            assert!(!least.contains(other), "{least}");
        }
    }
}
