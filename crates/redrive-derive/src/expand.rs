//! Writes the implementation of `redrive::Payload`. Pure.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Expr, ExprLit, Lit, Result};

use crate::attributes::Attributes;

/// Returns the implementation for a type.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = Attributes::of(&input.attrs)?;
    let redrive = match attributes.get("crate") {
        Some(path) => quote!(#path),
        None => quote!(::redrive),
    };
    let option = quote!(::std::option::Option);
    let json = quote!(#redrive::serde_json::Value);
    let items = attributes.0.iter().map(|(name, value)| {
        let at = value.span();
        Ok(match *name {
            "kind" => quote_spanned!(at=> const KIND: &str = #value;),
            "attempts" => quote_spanned!(at=> const ATTEMPTS: u32 = #value;),
            "priority" => quote_spanned!(at=> const PRIORITY: i16 = #value;),
            "version" => quote_spanned!(at=> const VERSION: u32 = #value;),
            "queue" => quote_spanned!(at=> const QUEUE: #option<&str> = #option::Some(#value);),
            "deadline" => quote_spanned! {at=>
                const DEADLINE: #option<::std::time::Duration> = #option::Some(#value);
            },
            "backoff" => quote_spanned! {at=>
                fn backoff() -> #option<#redrive::Backoff> { #option::Some(#value) }
            },
            "upgrade" => quote_spanned! {at=>
                fn upgrade(
                    from: u32, value: #json,
                ) -> ::std::result::Result<#json, #redrive::Failure> {
                    (#value)(from, value)
                }
            },
            "unique" => key(input, &quote!(unique), value)?,
            "group" => key(input, &quote!(group), value)?,
            // The path of the crate.
            _ => TokenStream::new(),
        })
    });
    let items: Vec<TokenStream> = items.collect::<Result<_>>()?;
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    // A generic type waits for its first use.
    let checked = input.generics.params.is_empty().then(|| {
        quote! {const _: () = #redrive::NewJob::check_type::<#name>();}
    });
    Ok(quote! {
        #checked
        #[automatically_derived]
        impl #generics #redrive::Payload for #name #arguments #conditions {
            #(#items)*
        }
    })
}

/// Returns the method that makes a key of a job: by a format string of its fields, or by a function.
fn key(input: &DeriveInput, method: &TokenStream, value: &Expr) -> Result<TokenStream> {
    // `self` and the names in a template are those of this method, also if a macro wrote the attribute.
    let this = quote_spanned!(Span::call_site()=> self);
    let made = if let Expr::Lit(ExprLit {
        lit: Lit::Str(format),
        ..
    }) = value
    {
        let fields = match &input.data {
            Data::Struct(data) => data.fields.iter().collect(),
            Data::Enum(_) | Data::Union(_) => Vec::new(),
        };
        let fields = fields.into_iter().filter_map(|field| field.ident.as_ref());
        let names = fields.clone().cloned().map(|mut name| {
            name.set_span(format.span());
            name
        });
        quote! {
            #(
                #[allow(unused_variables, non_snake_case, deprecated)]
                let #names = &#this.#fields;
            )*
            ::std::option::Option::Some(::std::format!(#format))
        }
    } else if matches!(value, Expr::Macro(_)) {
        let message = "expected a template such as `\"order-{order}\"`, or a function";
        return Err(Error::new_spanned(value, message));
    } else {
        quote_spanned!(value.span()=> (#value)(#this))
    };
    Ok(quote! {
        fn #method(&#this) -> ::std::option::Option<::std::string::String> {
            #made
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let item = format!("{attributes} struct P {{ a: i64 }}");
            let expanded = syn::parse_str::<DeriveInput>(&item).and_then(|input| expand(&input));
            let error = expanded.unwrap_err();
            assert!(error.to_string().contains(why), "{attributes}: {error}");
        }
    }
}
