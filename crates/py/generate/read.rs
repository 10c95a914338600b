//! Reads the methods of `Tensor` and the option structs they take from the sources of the op table.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A method of `Tensor`.
pub struct Method {
    /// Its name in Rust.
    pub name: String,
    /// Its documentation, without Rust code.
    pub doc: String,
    /// A worked example in Python, where the row is written by a macro that states one.
    pub example: Option<String>,
    /// True if it takes `&self`.
    pub on_self: bool,
    /// Names and types of the other parameters, types without spaces.
    pub params: Vec<(String, String)>,
    /// The result's type, without spaces.
    pub result: String,
}

/// A field of an option struct.
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type, without spaces.
    pub ty: String,
    /// Its default in Python; `None` where that has no spelling.
    pub default: Option<String>,
}
/// Fields of an option struct.
pub type Fields = Vec<Field>;

/// All methods by name, and the option structs.
#[derive(Default)]
pub struct Table {
    /// Methods by name.
    pub methods: BTreeMap<String, Method>,
    /// Option structs by name.
    pub options: BTreeMap<String, Fields>,
}

/// Reads every file below a folder.
pub fn table(dir: &Path) -> Result<Table, String> {
    let mut files = Vec::new();
    list(dir, &mut files)?;
    files.sort();
    let mut table = Table::default();
    let mut defaults = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        for item in parsed.items {
            match item {
                syn::Item::Impl(i) if i.trait_.is_none() && plain(&i.self_ty) == "Tensor" => implemented(i, &mut table),
                syn::Item::Impl(i) if i.trait_.as_ref().is_some_and(|t| plain(&t.0) == "Default") => defaults.push(i),
                syn::Item::Macro(m) => written_by_macro(&m.mac, &mut table),
                syn::Item::Struct(s) if s.ident.to_string().ends_with("Options") => options(s, &mut table),
                _ => {}
            }
        }
    }
    defaults.iter().for_each(|i| defaulted(i, &mut table));
    Ok(table)
}

/// Takes the defaults of an option struct from its `impl Default`.
fn defaulted(i: &syn::ItemImpl, table: &mut Table) {
    let Some(fields) = table.options.get_mut(&plain(&i.self_ty)) else { return };
    let Some(syn::ImplItem::Fn(f)) = i.items.first() else { return };
    let Some(syn::Stmt::Expr(syn::Expr::Struct(made), _)) = f.block.stmts.last() else { return };
    for value in &made.fields {
        let name = plain(&value.member);
        if let Some(f) = fields.iter_mut().find(|f| f.name == name) {
            f.default = in_python(&plain(&value.expr));
        }
    }
}

/// A default of Rust in Python: numbers, words, booleans and names of variants.
fn in_python(rust: &str) -> Option<String> {
    let rust = rust.strip_suffix(".into()").unwrap_or(rust);
    match rust {
        "true" => return Some("True".to_string()),
        "false" => return Some("False".to_string()),
        _ => {}
    }
    let is_number = rust.parse::<f64>().is_ok();
    let is_word = rust.starts_with('"');
    if is_number || is_word {
        return Some(rust.to_string());
    }
    let (_, variant) = rust.split_once("::")?;
    variant.chars().all(char::is_alphanumeric).then(|| format!("\"{}\"", variant.to_lowercase()))
}

fn list(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Tokens without spaces or crate prefixes.
fn plain(t: &impl ToTokens) -> String {
    t.to_token_stream().to_string().replace([' ', '\n'], "").replace("crate::", "").replace("std::ops::", "")
}

fn implemented(i: syn::ItemImpl, table: &mut Table) {
    for item in i.items {
        let syn::ImplItem::Fn(f) = item else { continue };
        if !matches!(f.vis, syn::Visibility::Public(_)) || !f.sig.generics.params.is_empty() {
            continue;
        }
        let mut params = Vec::new();
        let mut on_self = false;
        for p in &f.sig.inputs {
            match p {
                syn::FnArg::Receiver(_) => on_self = true,
                syn::FnArg::Typed(p) => params.push((plain(&p.pat), plain(&p.ty))),
            }
        }
        let result = if let syn::ReturnType::Type(_, t) = &f.sig.output { plain(t) } else { String::new() };
        let name = f.sig.ident.to_string();
        let doc = documentation(&f.attrs);
        table.methods.insert(name.clone(), Method { name, doc, example: None, on_self, params, result });
    }
}

fn documentation(attrs: &[syn::Attribute]) -> String {
    let lines = attrs.iter().filter_map(|a| match &a.meta {
        syn::Meta::NameValue(n) if n.path.is_ident("doc") => match &n.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }) => Some(s.value()),
            _ => None,
        },
        _ => None,
    });
    prose(lines)
}

/// The lines without code blocks.
fn prose(lines: impl Iterator<Item = String>) -> String {
    let mut out = Vec::new();
    let mut in_code = false;
    for line in lines {
        let line = line.strip_prefix(' ').unwrap_or(&line).to_string();
        if line.starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            out.push(line);
        }
    }
    out.join("\n").trim().to_string()
}

/// Rows and methods written by `unary!`, `binary!` and `activation!`.
fn written_by_macro(mac: &syn::Macro, table: &mut Table) {
    let Some(kind) = mac.path.segments.last().map(|s| s.ident.to_string()) else { return };
    if !["unary", "binary", "activation"].contains(&kind.as_str()) {
        return;
    }
    let mut tokens = mac.tokens.clone().into_iter().peekable();
    let mut docs = Vec::new();
    while let Some(TokenTree::Punct(p)) = tokens.peek() {
        if p.as_char() != '#' {
            break;
        }
        tokens.next();
        if let Some(TokenTree::Group(g)) = tokens.next() {
            docs.extend(g.stream().into_iter().filter_map(|t| match t {
                TokenTree::Literal(l) => syn::parse_str::<syn::LitStr>(&l.to_string()).ok().map(|s| s.value()),
                _ => None,
            }));
        }
    }
    let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(args))) = (tokens.next(), tokens.next()) else { return };
    let params = match kind.as_str() {
        "unary" => vec![],
        "binary" => vec![("other".to_string(), "implOperand".to_string())],
        _ => idents(args.stream()).into_iter().map(|p| (p, "f64".to_string())).collect(),
    };
    let name = name.to_string();
    let example = example(&kind, &name, tokens.collect());
    let method = Method {
        name: name.clone(),
        doc: prose(docs.into_iter()),
        example,
        on_self: true,
        params,
        result: "Tensor".to_string(),
    };
    table.methods.insert(name, method);
}

fn idents(tokens: TokenStream) -> Vec<String> {
    tokens.into_iter().filter_map(|t| if let TokenTree::Ident(i) = t { Some(i.to_string()) } else { None }).collect()
}

/// The worked example of a row in Python's words: `example: [1.0] => [2.0], "source";`.
fn example(kind: &str, name: &str, tokens: TokenStream) -> Option<String> {
    let text = tokens.to_string();
    let is_truth = text.trim_start().starts_with("-> Bool");
    let (_, text) = text.rsplit_once("example :")?;
    let (inputs, rest) = text.split_once("=>")?;
    let (output, source) = rest.rsplit_once(", \"")?;
    let source = source.split('"').next()?;
    // Rust's constants and casts are not Python's.
    let is_numbers = |s: &str| s.chars().all(|c| "0123456789.,-[]() e".contains(c));
    let tidy = |s: &str| s.trim().replace(" ,", ",").replace("- ", "-");
    let (inputs, output) = (tidy(inputs), tidy(output));
    if !is_numbers(&inputs) || !is_numbers(&output) {
        return None;
    }
    let output = if is_truth { output.replace("0.0", "False").replace("1.0", "True") } else { output };
    let call = match kind {
        "binary" => {
            let (a, b) = inputs.split_once("],")?;
            format!("tensor({}]).{name}(tensor({}))", a.trim(), b.trim())
        }
        "activation" => {
            let (numbers, x) = inputs.strip_prefix('(')?.split_once("),")?;
            format!("tensor({}).{name}({})", x.trim(), numbers.trim())
        }
        _ => format!("tensor({inputs}).{name}()"),
    };
    Some(format!(">>> {call}.tolist()  # {source}\n{output}"))
}

fn options(s: syn::ItemStruct, table: &mut Table) {
    let fields = s.fields.iter().filter(|f| matches!(f.vis, syn::Visibility::Public(_)));
    let field = |f: &syn::Field| Some(Field { name: f.ident.as_ref()?.to_string(), ty: plain(&f.ty), default: None });
    let fields = fields.filter_map(field).collect();
    table.options.insert(s.ident.to_string(), fields);
}
