//! JavaScript and TypeScript on their way to Node: what its console does not take is rewritten.
//!
//! - TypeScript loses its types, and enums, namespaces and parameter properties become JavaScript.
//!   Types are not checked. Line numbers of errors are those of the JavaScript.
//! - `import` and `export` at the top level belong to modules. An import becomes the awaited call it
//!   stands for, in its place and on its lines; `export` is dropped, what it exports stays.
//! - `import(…)` is sent through the driver, because evaluated code has no module around it.
//!
//! Code with none of this goes to Node untouched, and so does JavaScript that cannot be parsed:
//! Node's own message is the one its users know.

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ImportDeclaration, ImportDeclarationSpecifier, ImportExpression, ModuleExportName, Program,
    Statement,
};
use oxc_ast_visit::Visit;
use oxc_codegen::Codegen;
use oxc_parser::Parser;
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan as _, SourceType, Span};
use oxc_transformer::{TransformOptions, Transformer, TypeScriptOptions};
use sandshell_types::RunError;

/// The driver's import.
const IMPORT: &str = "globalThis[Symbol.for('sandshell.import')]";

/// The code as Node's console evaluates it.
pub(crate) fn prepare(code: &str, typescript: bool) -> Result<String, RunError> {
    let code = if typescript {
        without_types(code)?
    } else {
        code.to_owned()
    };
    if !code.contains("import") && !code.contains("export") {
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
        let place = problem.labels.iter().next().map(|label| {
            let before = code.get(..label.offset() as usize).unwrap_or_default();
            let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
            (before.matches('\n').count() + 1, column + 1)
        });
        return Err(syntax_error(&problem.to_string(), place, code));
    }
    let mut program = parsed.program;
    let scoping = SemanticBuilder::new()
        .with_excess_capacity(2.0)
        .with_enum_eval(true)
        .build(&program)
        .semantic
        .into_scoping();
    let options = TransformOptions {
        typescript: TypeScriptOptions {
            // What this run imports, a later one may use.
            only_remove_type_imports: true,
            ..TypeScriptOptions::default()
        },
        ..TransformOptions::default()
    };
    let path = std::path::Path::new("run.ts");
    let transformed =
        Transformer::new(&allocator, path, &options).build_with_scoping(scoping, &mut program);
    if let Some(problem) = transformed.diagnostics.iter().next() {
        return Err(syntax_error(&problem.to_string(), None, code));
    }
    Ok(Codegen::new().build(&program).code)
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

/// Places to change, in any order.
struct Rewrite<'c> {
    code: &'c str,
    edits: Vec<(Span, String)>,
}

fn rewrite(code: &str, program: &Program<'_>) -> String {
    let mut rewrite = Rewrite {
        code,
        edits: Vec::new(),
    };
    for statement in &program.body {
        let span = statement.span();
        let text = span.source_text(code);
        if let Statement::ImportDeclaration(import) = statement {
            rewrite.import(import);
        } else if text.starts_with("export") {
            rewrite.export(span, text);
        }
    }
    rewrite.visit_program(program);
    rewrite.edits.sort_by_key(|(span, _)| span.start);
    let mut done = String::with_capacity(code.len() + 256);
    let mut at = 0;
    for (span, text) in &rewrite.edits {
        done.push_str(code.get(at..span.start as usize).unwrap_or_default());
        done.push_str(text);
        at = span.end as usize;
    }
    done.push_str(code.get(at..).unwrap_or_default());
    done
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
        let mut text = match (whole, names.is_empty()) {
            (None, true) => format!("{call};"),
            (None, false) => format!("const {{{names}}} = {call};"),
            (Some(whole), true) => format!("const {whole} = {call};"),
            (Some(whole), false) => {
                format!("const {whole} = {call}; const {{{names}}} = {whole};")
            }
        };
        let lines = import.span.source_text(self.code).matches('\n').count();
        text.push_str(&"\n".repeat(lines));
        self.edits.push((import.span, text));
    }

    fn export(&mut self, span: Span, text: &str) {
        let rest = text.trim_start_matches("export").trim_start();
        let keep = if rest.starts_with(['{', '*']) {
            // It declares nothing.
            ""
        } else {
            rest.strip_prefix("default").map_or(rest, str::trim_start)
        };
        let dropped = Span::new(span.start, span.end - keep.len() as u32);
        let lines = dropped.source_text(self.code).matches('\n').count();
        self.edits.push((dropped, "\n".repeat(lines)));
    }
}

impl<'a> Visit<'a> for Rewrite<'_> {
    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        let start = import.span.start;
        let keyword = Span::new(start, start + "import".len() as u32);
        self.edits.push((keyword, IMPORT.to_owned()));
        oxc_ast_visit::walk::walk_import_expression(self, import);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn js(code: &str) -> String {
        prepare(code, false).unwrap().replace(IMPORT, "I")
    }

    fn ts(code: &str) -> String {
        prepare(code, true).unwrap().replace(IMPORT, "I")
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
            ("export default 5", "5"),
            ("const a = 1; export { a };", "const a = 1; "),
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
        assert_eq!(ts("import type { T } from 'm'").trim(), "");
        assert!(ts("import { readFileSync } from 'fs'").contains("await I("));
        let error = prepare("const a: = 1", true).unwrap_err();
        assert_eq!(error.name, "SyntaxError");
        assert!(error.traceback[1].contains("run.ts:1:"), "{error:?}");
    }
}
