//! TypeScript without its types.
//!
//! Owns the edits that make JavaScript of a text: types become blanks, so that everything stays on its line and, as
//! long as nothing but types is taken out of that, in its column; enums, namespaces, parameter properties and
//! `import … = …`, which are more than types (`meaning`), become what they stand for. Types are not checked.
//!
//! Where a statement is blanked, or the end of one, a semicolon takes its place: the lines before and after it must
//! not be read as one.

mod meaning;

use std::collections::{HashMap, HashSet};

use oxc_ast::ast::{
    AccessorProperty, AccessorPropertyType, ArrowFunctionExpression, BindingIdentifier,
    BlockStatement, Class, Declaration, Decorator, ExportAllDeclaration, ExportDeclaration,
    ExportDefaultDeclaration, ExportDefaultDeclarationKind, ExportFromDeclaration,
    ExportNamedDeclaration, ExportSpecifier, FormalParameter, Function, FunctionBody,
    IdentifierReference, ImportDeclaration, ImportDeclarationSpecifier, ImportOrExportKind,
    MethodDefinition, MethodDefinitionKind, MethodDefinitionType, ObjectProperty, Program,
    PropertyDefinition, PropertyDefinitionType, Statement, StaticBlock, SwitchStatement,
    TSAsExpression, TSClassImplements, TSEnumDeclaration, TSExportAssignment,
    TSExternalModuleDeclaration, TSGlobalDeclaration, TSImportEqualsDeclaration, TSIndexSignature,
    TSInterfaceDeclaration, TSNamespaceDeclaration, TSNamespaceDeclarationBody,
    TSNamespaceExportDeclaration, TSNonNullExpression, TSSatisfiesExpression, TSThisParameter,
    TSTypeAliasDeclaration, TSTypeAnnotation, TSTypeAssertion, TSTypeParameterDeclaration,
    TSTypeParameterInstantiation, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan as _, Span};
use oxc_syntax::scope::ScopeFlags;

use super::Edits;

/// Words that say nothing in JavaScript.
const MODIFIERS: [&str; 5] = ["public", "private", "protected", "readonly", "override"];

/// What cannot be made JavaScript, and where.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) message: &'static str,
    pub(super) at: u32,
}

/// The same program in JavaScript.
pub(super) fn erase(code: &str, program: &Program<'_>) -> Result<String, Refused> {
    let mut eraser = Eraser {
        code,
        bare: without_comments(code, program),
        edits: Edits::default(),
        ends: HashSet::new(),
        namespaces: Vec::new(),
        enums: Vec::new(),
        blocks: Vec::new(),
        derived: Vec::new(),
        refused: None,
    };
    eraser.visit_program(program);
    match eraser.refused {
        Some(refused) => Err(refused),
        None => Ok(eraser.edits.apply(code)),
    }
}

struct Eraser<'c> {
    code: &'c str,
    /// The same with blanks for comments, to look for words and signs.
    bare: String,
    edits: Edits,
    /// Where statements and fields end.
    ends: HashSet<u32>,
    /// What the namespaces around are called within.
    namespaces: Vec<String>,
    /// The enums around, and their members so far.
    enums: Vec<(String, HashSet<String>)>,
    /// The blocks around, with what enums and namespaces add to: functions, classes, and others of their name.
    blocks: Vec<HashMap<String, HashSet<String>>>,
    /// Of the classes around, whether they have a base.
    derived: Vec<bool>,
    refused: Option<Refused>,
}

impl Eraser<'_> {
    fn text(&self, start: u32, end: u32) -> &str {
        self.code
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    fn bare(&self, start: u32, end: u32) -> &str {
        self.bare
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    fn blanks(&self, start: u32, end: u32) -> String {
        // Columns are counted in units of UTF-16.
        let blank = |c: char| match c {
            '\n' => "\n",
            c if c.len_utf16() > 1 => "  ",
            _ => " ",
        };
        self.text(start, end).chars().map(blank).collect()
    }

    fn blank(&mut self, start: u32, end: u32) {
        if start < end {
            let blanks = self.blanks(start, end);
            self.edits.replace(start, end, blanks);
        }
    }

    /// Blanks what must not break a line; says how many it had.
    fn blank_on_one_line(&mut self, start: u32, end: u32) -> usize {
        let blanks = self.blanks(start, end);
        let lines = blanks.matches('\n').count();
        self.edits.replace(start, end, blanks.replace('\n', " "));
        lines
    }

    fn replace(&mut self, start: u32, end: u32, by: &str) {
        self.edits.replace_lines(self.code, start, end, by);
    }

    /// Blanks a whole statement, or a member of a class.
    fn drop_whole(&mut self, span: Span) {
        let blanks = begun(";", &self.blanks(span.start, span.end));
        self.edits.replace(span.start, span.end, blanks);
    }

    /// Blanks the end of an expression.
    fn drop_tail(&mut self, start: u32, end: u32) {
        let mut blanks = self.blanks(start, end);
        if self.ends.contains(&end) {
            blanks = begun(";", &blanks);
        }
        self.edits.replace(start, end, blanks);
    }

    /// Blanks the last of this sign, such as the `?` of an optional name.
    fn drop_sign(&mut self, sign: char, start: u32, end: u32) {
        if let Some(at) = self.bare(start, end).rfind(sign) {
            let at = start + at as u32;
            self.blank(at, at + 1);
        }
    }

    /// Blanks words before a name.
    fn drop_words(&mut self, words: &[&str], start: u32, end: u32) {
        let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$';
        let mut found = Vec::new();
        let mut at = 0;
        for piece in self.bare(start, end).split_inclusive(ends) {
            let word = piece.trim_end_matches(ends);
            if words.contains(&word) {
                found.push((at, at + word.len()));
            }
            at += piece.len();
        }
        for (from, to) in found {
            self.blank(start + from as u32, start + to as u32);
        }
    }

    /// Blanks what a member of a class says before its name. Where it began so, it might be taken for a part of the
    /// field before it then.
    fn drop_modifiers(&mut self, span: Span, decorators: &[Decorator<'_>], name: u32) {
        let start = decorators.last().map_or(span.start, |last| last.span.end);
        let before = self.edits.len();
        self.drop_words(&MODIFIERS, start, name);
        if let Some((from, _, blanks)) = self.edits.0.get_mut(before)
            && *from == span.start
        {
            *blanks = begun(";", blanks);
        }
    }

    fn refuse(&mut self, message: &'static str, at: u32) {
        self.refused.get_or_insert(Refused { message, at });
    }

    /// Keeps those that are not types.
    fn drop_specifiers(&mut self, specifiers: &[(Span, bool)], end: u32) {
        let ends = specifiers.iter().skip(1).map(|(span, _)| span.start);
        for ((span, is_type), next) in specifiers.iter().zip(ends.chain([end])) {
            if *is_type {
                let rest = self.bare(span.start, next);
                let end = rest.find('}').map_or(next, |at| span.start + at as u32);
                self.blank(span.start, end);
            }
        }
    }

    fn drop_types(
        &mut self,
        span: Span,
        kind: ImportOrExportKind,
        specifiers: &[ExportSpecifier<'_>],
    ) {
        if kind.is_type() {
            return self.drop_whole(span);
        }
        let specifiers = specifiers.iter();
        let specifiers = specifiers.map(|one| (one.span, one.export_kind.is_type()));
        self.drop_specifiers(&specifiers.collect::<Vec<_>>(), span.end);
    }
}

fn without_comments(code: &str, program: &Program<'_>) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for comment in &program.comments {
        let span = comment.span.start as usize..comment.span.end as usize;
        for byte in bytes.get_mut(span).unwrap_or_default() {
            *byte = b' ';
        }
    }
    // Never anything else: a comment begins and ends where a character does.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Blanks with a sign in the first place, where no line ends.
fn begun(sign: &str, blanks: &str) -> String {
    format!("{sign}{}", blanks.get(1..).unwrap_or_default())
}

/// Whether there is something of it when a program runs.
fn exists(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::TSNamespaceExportDeclaration(_) => false,
        Statement::ExportDeclaration(one) => declaration_exists(&one.declaration),
        other => other.as_declaration().is_none_or(declaration_exists),
    }
}

fn declaration_exists(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::TSInterfaceDeclaration(_)
        | Declaration::TSTypeAliasDeclaration(_)
        | Declaration::TSGlobalDeclaration(_)
        | Declaration::TSExternalModuleDeclaration(_) => false,
        Declaration::TSNamespaceDeclaration(one) => namespace_exists(one),
        Declaration::VariableDeclaration(one) => !one.declare,
        Declaration::FunctionDeclaration(one) => !one.declare && one.body.is_some(),
        Declaration::ClassDeclaration(one) => !one.declare,
        Declaration::TSEnumDeclaration(one) => !one.declare,
        Declaration::TSImportEqualsDeclaration(one) => !one.import_kind.is_type(),
    }
}

fn namespace_exists(namespace: &TSNamespaceDeclaration<'_>) -> bool {
    !namespace.declare
        && match &namespace.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => namespace_exists(inner),
            TSNamespaceDeclarationBody::TSModuleBlock(block) => block.body.iter().any(exists),
        }
}

impl<'a> Visit<'a> for Eraser<'_> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        self.ends.insert(it.span().end);
        if exists(it) {
            walk::walk_statement(self, it);
        } else {
            self.drop_whole(it.span());
        }
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank(it.span.start, it.span.end);
    }

    fn visit_ts_this_parameter(&mut self, _: &TSThisParameter<'a>) {}

    fn visit_ts_class_implements(&mut self, _: &TSClassImplements<'a>) {}

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.drop_tail(it.expression.span().end, it.span.end);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.drop_tail(it.expression.span().end, it.span.end);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        // What comes after it might be taken for something else without it.
        let (start, end) = (it.span.start, it.expression.span().start);
        let blanks = begun("(", &self.blanks(start, end));
        self.edits.replace(start, end, blanks);
        self.visit_expression(&it.expression);
        self.edits.insert(it.span.end, ")");
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank(it.span.end - 1, it.span.end);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if let Some(decorator) = it.decorators.first() {
            self.refuse("parameters have no decorators", decorator.span.start);
        }
        self.drop_words(&MODIFIERS, it.span.start, it.pattern.span().start);
        if it.optional {
            let end = it.type_annotation.as_ref().map(|one| one.span.start);
            self.drop_sign('?', it.pattern.span().end, end.unwrap_or(it.span.end));
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let Some(annotation) = it.type_annotation.as_ref().filter(|_| it.definite) {
            self.drop_sign('!', it.id.span().end, annotation.span.start);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if let Some(this) = &it.this_param {
            let params = &it.params;
            let rest = params.rest.as_ref().map(|rest| rest.span.start);
            let first = params.items.first().map(|first| first.span.start);
            self.blank(
                this.span.start,
                first.or(rest).unwrap_or(params.span.end - 1),
            );
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        // No line may end before the parameters, nor before the arrow. Those that did end after it.
        let mut lines = 0;
        if let Some(parameters) = &it.type_parameters {
            lines += self.blank_on_one_line(parameters.span.start, it.params.span.start);
        }
        self.visit_formal_parameters(&it.params);
        let mut head = it.params.span.end;
        if let Some(annotation) = &it.return_type {
            lines += self.blank_on_one_line(head, annotation.span.end);
            head = annotation.span.end;
        }
        if let Some(arrow) = self.bare(head, it.body.span().start).find("=>")
            && lines > 0
        {
            let after = head + arrow as u32 + 2;
            self.edits.insert(after, &"\n".repeat(lines));
        }
        self.visit_arrow_function_body(&it.body);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        let body = it.body.span.start;
        if it.r#abstract {
            let name = it.id.as_ref().map_or(body, |id| id.span.start);
            self.drop_words(&["abstract"], it.span.start, name);
        }
        if let Some(first) = it.implements.first() {
            let before = self.bare(it.span.start, first.span.start);
            if let Some(at) = before.rfind("implements") {
                self.blank(it.span.start + at as u32, body);
            }
        }
        self.declare_parameters(it);
        self.derived.push(it.heritage.is_some());
        walk::walk_class(self, it);
        self.derived.pop();
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        let is_abstract = it.r#type == MethodDefinitionType::TSAbstractMethodDefinition;
        if is_abstract || it.value.body.is_none() {
            return self.drop_whole(it.span);
        }
        self.drop_modifiers(it.span, &it.decorators, it.key.span().start);
        if it.optional {
            self.drop_sign('?', it.key.span().end, it.value.span.start);
        }
        if it.kind == MethodDefinitionKind::Constructor {
            self.assign_parameters(it);
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if it.declare || it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
            return self.drop_whole(it.span);
        }
        self.ends.insert(it.span.end);
        self.drop_modifiers(it.span, &it.decorators, it.key.span().start);
        let key = it.key.span().end;
        let typed = it.type_annotation.as_ref().map(|one| one.span.start);
        let next = typed.or(it.value.as_ref().map(|value| value.span().start));
        if it.optional {
            self.drop_sign('?', key, next.unwrap_or(it.span.end));
            // A field called `get` would make a getter of what comes next.
            if next.is_none() {
                self.edits.insert(it.span.end, ";");
            }
        }
        if it.definite {
            self.drop_sign('!', key, next.unwrap_or(it.span.end));
        }
        self.visit_decorators(&it.decorators);
        self.visit_property_key(&it.key);
        match (&it.type_annotation, &it.value) {
            // Likewise.
            (Some(annotation), None) => self.drop_whole(annotation.span),
            (Some(annotation), Some(_)) => self.visit_ts_type_annotation(annotation),
            (None, _) => {}
        }
        if let Some(value) = &it.value {
            self.visit_expression(value);
        }
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        if it.r#type == AccessorPropertyType::TSAbstractAccessorProperty {
            return self.drop_whole(it.span);
        }
        self.ends.insert(it.span.end);
        self.drop_modifiers(it.span, &it.decorators, it.key.span().start);
        if let Some(annotation) = it.type_annotation.as_ref().filter(|_| it.definite) {
            self.drop_sign('!', it.key.span().end, annotation.span.start);
        }
        walk::walk_accessor_property(self, it);
    }

    fn visit_ts_index_signature(&mut self, it: &TSIndexSignature<'a>) {
        self.drop_whole(it.span);
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.namespace(it, false);
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.enumerate(it, false);
    }

    fn visit_program(&mut self, it: &Program<'a>) {
        self.in_block(&it.body, |this| walk::walk_program(this, it));
    }

    fn visit_function_body(&mut self, it: &FunctionBody<'a>) {
        self.in_block(&it.statements, |this| walk::walk_function_body(this, it));
    }

    fn visit_block_statement(&mut self, it: &BlockStatement<'a>) {
        self.in_block(&it.body, |this| walk::walk_block_statement(this, it));
    }

    fn visit_static_block(&mut self, it: &StaticBlock<'a>) {
        self.in_block(&it.body, |this| walk::walk_static_block(this, it));
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.in_block(&[], |this| {
            for case in &it.cases {
                this.note_declared(&case.consequent);
            }
            walk::walk_switch_statement(this, it);
        });
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if let Some(name) = self.enum_with(&it.name) {
            let of = format!("{name}.");
            self.edits.insert(it.span.start, &of);
        }
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if it.shorthand
            && self
                .enum_with(it.key.span().source_text(self.code))
                .is_some()
        {
            let name = it.key.span().source_text(self.code);
            self.edits.insert(it.span.start, &format!("{name}: "));
            return self.visit_expression(&it.value);
        }
        walk::walk_object_property(self, it);
    }

    fn visit_binding_identifier(&mut self, it: &BindingIdentifier<'a>) {
        if self.enum_with(&it.name).is_some() {
            self.refuse(
                "the value of a member of an enum declares nothing that is called as another member",
                it.span.start,
            );
        }
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        if it.import_kind.is_type() {
            return self.drop_whole(it.span);
        }
        let specifiers = it.specifiers.iter().flatten().map(|one| match one {
            ImportDeclarationSpecifier::ImportSpecifier(one) => {
                (one.span, one.import_kind.is_type())
            }
            other => (other.span(), false),
        });
        self.drop_specifiers(&specifiers.collect::<Vec<_>>(), it.source.span.start);
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        let inside = !self.namespaces.is_empty();
        if inside || self.adds(&it.declaration) {
            self.blank(it.span.start, it.declaration.span().start);
        }
        match &it.declaration {
            Declaration::TSNamespaceDeclaration(one) => return self.namespace(one, true),
            Declaration::TSEnumDeclaration(one) => return self.enumerate(one, true),
            _ => walk::walk_export_declaration(self, it),
        }
        if !inside {
            return;
        }
        if let Declaration::VariableDeclaration(one) = &it.declaration {
            self.export_variables(one);
        } else if let Some(id) = it.declaration.id() {
            let name = id.name.to_string();
            self.export_to_namespace(&name, it.span.end);
        }
    }

    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        match &it.declaration {
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => self.drop_whole(it.span),
            ExportDefaultDeclarationKind::FunctionDeclaration(one) if one.body.is_none() => {
                self.drop_whole(it.span);
            }
            _ => walk::walk_export_default_declaration(self, it),
        }
    }

    fn visit_export_named_declaration(&mut self, it: &ExportNamedDeclaration<'a>) {
        self.drop_types(it.span, it.export_kind, &it.specifiers);
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        self.drop_types(it.span, it.export_kind, &it.specifiers);
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        self.drop_types(it.span, it.export_kind, &[]);
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        self.replace(it.span.start, it.id.span.start, "const ");
        self.edits.insert(it.span.end, ";");
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        let start = it.expression.span().start;
        self.replace(it.span.start, start, "module.exports = ");
        self.visit_expression(&it.expression);
    }

    // Dropped whole, as statements.
    fn visit_ts_interface_declaration(&mut self, _: &TSInterfaceDeclaration<'a>) {}

    fn visit_ts_type_alias_declaration(&mut self, _: &TSTypeAliasDeclaration<'a>) {}

    fn visit_ts_global_declaration(&mut self, _: &TSGlobalDeclaration<'a>) {}

    fn visit_ts_external_module_declaration(&mut self, _: &TSExternalModuleDeclaration<'a>) {}

    fn visit_ts_namespace_export_declaration(&mut self, _: &TSNamespaceExportDeclaration<'a>) {}
}

#[cfg(test)]
mod tests;
