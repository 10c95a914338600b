//! `#[derive(Module)]`: a struct of modules, variables and plain settings becomes a module whose
//! parameters are named by their field path.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Index, Member, parse_macro_input};

/// Visits every field; fields marked `#[module(skip)]` are passed over.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let Data::Struct(data) = &input.data else {
        let e = syn::Error::new_spanned(&input.ident, "Module can be derived for structs only");
        return e.to_compile_error().into();
    };
    let fields = match &data.fields {
        Fields::Named(f) => f.named.iter().collect::<Vec<_>>(),
        Fields::Unnamed(f) => f.unnamed.iter().collect(),
        Fields::Unit => Vec::new(),
    };
    // Programs know this as a part of the façade; the layers' own crate cannot name the façade.
    let inside = std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name == "talweg-nn");
    let nn = if inside { quote!(::talweg_nn) } else { quote!(::talweg::nn) };
    let visits = fields.iter().enumerate().filter(|(_, f)| !is_skipped(f)).map(|(i, f)| {
        let (member, name) = match &f.ident {
            Some(id) => (Member::Named(id.clone()), id.to_string()),
            None => (Member::Unnamed(Index::from(i)), i.to_string()),
        };
        quote! { #nn::Module::visit(&self.#member, &#nn::join(path, #name), visitor); }
    });
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        impl #impl_generics #nn::Module for #name #type_generics #where_clause {
            fn visit(&self, path: &str, visitor: &mut dyn #nn::Visitor) {
                let _ = (path, &visitor);
                #(#visits)*
            }
        }
    }
    .into()
}

fn is_skipped(field: &syn::Field) -> bool {
    field
        .attrs
        .iter()
        .any(|a| a.path().is_ident("module") && a.parse_args::<syn::Ident>().is_ok_and(|word| word == "skip"))
}
