//! JavaScript and TypeScript on their way to Node: what its console does not take is rewritten.
//!
//! - TypeScript loses its types (`types`).
//! - `import` and `export` at the top level belong to modules. An import becomes the awaited call it
//!   stands for, in its place and on its lines; `export` is dropped, what it exports stays.
//! - `import(…)` is sent through the driver, because evaluated code has no module around it.
//!
//! Code with none of this goes to Node untouched, and so does JavaScript that cannot be parsed:
//! Node's own message is the one its users know.

mod types;

use std::thread;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ExportDefaultDeclaration, ExportDefaultDeclarationKind, ImportDeclaration,
    ImportDeclarationSpecifier, ImportExpression, ModuleExportName, Program, Statement,
};
use oxc_ast_visit::Visit;
use oxc_parser::Parser;
use oxc_span::{GetSpan as _, SourceType, Span};
use sandshell_types::RunError;
use tokio::sync::oneshot;

/// The driver's import.
const IMPORT: &str = "globalThis[Symbol.for('sandshell.import')]";

/// What the parser takes of its stack for a level of nesting, at most. What is not touched costs nothing.
const LEVEL: usize = if cfg!(debug_assertions) {
    32 << 10
} else {
    4 << 10
};

/// What it takes besides.
const STACK: usize = 1 << 20;

/// The code as Node's console evaluates it.
pub(crate) async fn prepare(code: &str, typescript: bool) -> Result<String, RunError> {
    if !typescript && !of_a_module(code) {
        return Ok(code.to_owned());
    }
    let (tell, told) = oneshot::channel();
    let owned = code.to_owned();
    // No code can overflow this stack, however deep it is nested.
    let reading = thread::Builder::new()
        .stack_size(STACK + most_levels(code) * LEVEL)
        .spawn(move || tell.send(rewritten(&owned, typescript)));
    // The code is not to blame.
    let failed = |why: String| RunError {
        name: "Error".to_owned(),
        value: format!("the code cannot be read now: {why}"),
        traceback: Vec::new(),
    };
    match reading {
        // It ends by itself, soon.
        Ok(thread) => drop(thread),
        // The machine has less memory than such a stack could take.
        Err(_) if !typescript => return Ok(code.to_owned()),
        Err(error) => {
            return Err(failed(format!(
                "it is too large for this machine ({error})"
            )));
        }
    }
    told.await
        .unwrap_or_else(|_| Err(failed("its reader broke off".to_owned())))
}

/// More than the levels of nesting in a text: every level takes a word or a sign. Strings and comments count,
/// for only a parser knows what they are.
fn most_levels(code: &str) -> usize {
    let mut levels = 0;
    let mut in_word = false;
    for byte in code.bytes() {
        let word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        let nests = !matches!(
            byte,
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b';' | b')' | b']' | b'}' | b'"' | b'\''
        );
        if nests && !(word && in_word) {
            levels += 1;
        }
        in_word = word;
    }
    levels
}

fn of_a_module(code: &str) -> bool {
    code.contains("import") || code.contains("export")
}

fn rewritten(code: &str, typescript: bool) -> Result<String, RunError> {
    let code = if typescript {
        without_types(code)?
    } else {
        code.to_owned()
    };
    if !of_a_module(&code) {
        return Ok(code);
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, &code, SourceType::mjs()).parse();
    if parsed.panicked || !parsed.diagnostics.is_empty() {
        return Ok(code);
    }
    Ok(rewrite(&code, &parsed.program))
}

fn without_types(code: &str) -> Result<String, RunError> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, SourceType::ts()).parse();
    if let Some(problem) = parsed.diagnostics.iter().next() {
        let label = problem.labels.iter().next();
        let place = label.map(|label| place_of(code, label.offset()));
        return Err(syntax_error(&problem.to_string(), place, code));
    }
    types::erase(code, &parsed.program)
        .map_err(|refused| syntax_error(refused.message, Some(place_of(code, refused.at)), code))
}

/// The line and the column of an offset, from 1.
fn place_of(code: &str, offset: u32) -> (usize, usize) {
    let before = code.get(..offset as usize).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

fn syntax_error(message: &str, place: Option<(usize, usize)>, code: &str) -> RunError {
    let mut traceback = vec![format!("SyntaxError: {message}")];
    if let Some((line, column)) = place {
        traceback.push(format!("    at run.ts:{line}:{column}"));
        traceback.extend(code.lines().nth(line - 1).map(|text| format!("    {text}")));
    }
    RunError {
        name: "SyntaxError".to_owned(),
        value: message.to_owned(),
        traceback,
    }
}

/// Changes of a text, in any order. None lies in another; those of one place come in the order they were made.
#[derive(Default)]
struct Edits(Vec<(u32, u32, String)>);

impl Edits {
    fn replace(&mut self, start: u32, end: u32, text: String) {
        self.0.push((start, end, text));
    }

    /// Replaces, and keeps the lines.
    fn replace_lines(&mut self, code: &str, start: u32, end: u32, by: &str) {
        let lines = Span::new(start, end).source_text(code).matches('\n');
        let text = format!("{by}{}", "\n".repeat(lines.count()));
        self.replace(start, end, text);
    }

    fn insert(&mut self, at: u32, text: &str) {
        self.0.push((at, at, text.to_owned()));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn apply(mut self, code: &str) -> String {
        self.0.sort_by_key(|(start, end, _)| (*start, *end));
        let mut done = String::with_capacity(code.len() + 256);
        let mut at = 0;
        for (start, end, text) in &self.0 {
            debug_assert!(
                code.get(at..*start as usize).is_some(),
                "{at} to {start} of {code}"
            );
            done.push_str(code.get(at..*start as usize).unwrap_or_default());
            done.push_str(text);
            at = *end as usize;
        }
        done.push_str(code.get(at..).unwrap_or_default());
        done
    }
}

/// What makes a script of a module.
struct Rewrite<'c> {
    code: &'c str,
    edits: Edits,
}

fn rewrite(code: &str, program: &Program<'_>) -> String {
    let mut rewrite = Rewrite {
        code,
        edits: Edits::default(),
    };
    for statement in &program.body {
        let span = statement.span();
        match statement {
            Statement::ImportDeclaration(import) => rewrite.import(import),
            Statement::ExportDeclaration(export) => {
                let kept = export.declaration.span().start;
                rewrite.edits.replace_lines(code, span.start, kept, "");
            }
            Statement::ExportDefaultDeclaration(export) => rewrite.export_default(export),
            // They declare nothing. The lines before and after it must not be read as one.
            Statement::ExportNamedDeclaration(_)
            | Statement::ExportFromDeclaration(_)
            | Statement::ExportAllDeclaration(_) => {
                rewrite.edits.replace_lines(code, span.start, span.end, ";");
            }
            _ => {}
        }
    }
    rewrite.visit_program(program);
    rewrite.edits.apply(code)
}

impl Rewrite<'_> {
    fn import(&mut self, import: &ImportDeclaration<'_>) {
        let source = import.source.span.source_text(self.code);
        let with = import.with_clause.as_ref().map(|clause| {
            let entries: Vec<&str> = clause
                .with_entries
                .iter()
                .map(|entry| entry.span.source_text(self.code))
                .collect();
            format!(", {{with: {{{}}}}}", entries.join(", "))
        });
        let call = format!("await {IMPORT}({source}{})", with.unwrap_or_default());
        let mut names = Vec::new();
        let mut whole = None;
        for specifier in import.specifiers.iter().flatten() {
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    let imported = match &one.imported {
                        ModuleExportName::StringLiteral(text) => text.span.source_text(self.code),
                        other => other.span().source_text(self.code),
                    };
                    names.push(format!("{imported}: {}", one.local.name));
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(one) => {
                    names.push(format!("default: {}", one.local.name));
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(one) => {
                    whole = Some(one.local.name.to_string());
                }
            }
        }
        let names = names.join(", ");
        let text = match (whole, names.is_empty()) {
            (None, true) => format!("{call};"),
            (None, false) => format!("const {{{names}}} = {call};"),
            (Some(whole), true) => format!("const {whole} = {call};"),
            (Some(whole), false) => {
                format!("const {whole} = {call}; const {{{names}}} = {whole};")
            }
        };
        self.edits
            .replace_lines(self.code, import.span.start, import.span.end, &text);
    }

    fn export_default(&mut self, export: &ExportDefaultDeclaration<'_>) {
        let value = export.declaration.span();
        let named = match &export.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(one) => one.id.is_some(),
            ExportDefaultDeclarationKind::ClassDeclaration(one) => one.id.is_some(),
            _ => false,
        };
        let (open, close) = if named { ("", "") } else { (";(", ");") };
        self.edits
            .replace_lines(self.code, export.span.start, value.start, open);
        self.edits.insert(value.end, close);
    }
}

impl<'a> Visit<'a> for Rewrite<'_> {
    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        let start = import.span.start;
        let end = start + "import".len() as u32;
        self.edits.replace(start, end, IMPORT.to_owned());
        oxc_ast_visit::walk::walk_import_expression(self, import);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn js(code: &str) -> String {
        rewritten(code, false).unwrap().replace(IMPORT, "I")
    }

    fn ts(code: &str) -> String {
        rewritten(code, true).unwrap().replace(IMPORT, "I")
    }

    #[test]
    fn imports_become_calls() {
        for (code, expected) in [
            ("import 'a'", "await I('a');"),
            (
                "import a from 'm'; a",
                "const {default: a} = await I('m'); a",
            ),
            (
                "import a, {b, c as d, 'x-y' as e} from \"m\"",
                "const {default: a, b: b, c: d, 'x-y': e} = await I(\"m\");",
            ),
            ("import * as n from 'm'", "const n = await I('m');"),
            (
                "import j from './j.json' with {type: 'json'}",
                "const {default: j} = await I('./j.json', {with: {type: 'json'}});",
            ),
            (
                "import {\n a\n} from 'm'\nb",
                "const {a: a} = await I('m');\n\n\nb",
            ),
            (
                "const m = await import('x' + import('y'))",
                "const m = await I('x' + I('y'))",
            ),
        ] {
            assert_eq!(js(code), expected);
        }
    }

    #[test]
    fn exports_are_dropped_and_what_they_export_stays() {
        for (code, expected) in [
            ("export const a = 1", "const a = 1"),
            ("export default function f() {}", "function f() {}"),
            ("export default 5", ";(5);"),
            ("export default {a: 1}", ";({a: 1});"),
            ("export default function () {}", ";(function () {});"),
            ("export default class { x = 1 }", ";(class { x = 1 });"),
            ("const x = 1\nexport default [x]", "const x = 1\n;([x]);"),
            ("export /* c */ default 5", ";(5);"),
            ("const a = 1; export { a };", "const a = 1; ;"),
            ("export {\n a\n}\n[1]", ";\n\n\n[1]"),
            ("export * from 'm'", ";"),
            (
                "export default function () {}\n(async () => 2)()",
                ";(function () {});\n(async () => 2)()",
            ),
        ] {
            assert_eq!(js(code), expected);
        }
    }

    #[test]
    fn the_rest_is_left_alone() {
        for code in [
            "'import a from b'",
            "x = {import: 1}",
            "import {",
            "// export",
            "exported = 2\nexported",
            "exports.foo = 1",
            "exportTo: for (;;) break exportTo",
        ] {
            assert_eq!(js(code), code);
        }
    }

    #[test]
    fn types_go() {
        let code = ts("interface P { x: number }\nconst p: P = {x: 1} as P;\np.x!");
        assert!(
            !code.contains("interface") && !code.contains(": P"),
            "{code}"
        );
        assert!(code.contains("p.x"), "{code}");
        assert!(ts("enum E { A, B = 5 }\nE.B").contains("\"B\""));
        assert!(ts("class C { constructor(public a: number) {} }").contains("this.a = a"));
        assert_eq!(ts("import type { T } from 'm'").trim(), ";");
        assert!(ts("import { readFileSync } from 'fs'").contains("await I("));
        let error = rewritten("const é: = 1", true).unwrap_err();
        assert_eq!(error.name, "SyntaxError");
        assert!(error.traceback[1].contains("run.ts:1:10"), "{error:?}");
    }

    /// Whether it is code or not: whoever reads it lives on.
    #[tokio::test]
    async fn no_nesting_is_too_deep() {
        const LEVELS: usize = 10_000;
        for (open, close) in [
            ("[", "]"),
            ("(", ")"),
            ("{", "}"),
            ("!", ""),
            ("-", "1"),
            ("a=", ""),
            ("x=>", ""),
            ("a?b:", ""),
            ("if(1)", ""),
            ("new ", ""),
            ("`${", "}`"),
            ("f(", ")"),
            ("1+", ""),
            ("a.", ""),
            ("{a:", "}"),
            ("class{a=", "}"),
            ("function f(){", "}"),
            ("for(;;)", ""),
            ("l:", ""),
            ("await ", ""),
            ("namespace A{", "}"),
            ("<T>", ""),
            ("A<", ">"),
        ] {
            for start in ["", "let a = ", "type A = ", "let a: "] {
                let code = format!(
                    "// import\n{start}{}1{}",
                    open.repeat(LEVELS),
                    close.repeat(LEVELS)
                );
                for typescript in [true, false] {
                    // What comes of it does not matter.
                    drop(prepare(&code, typescript).await);
                }
            }
        }
    }
}
