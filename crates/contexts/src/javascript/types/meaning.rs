//! What is more than types: parameters that are fields, enums, namespaces and what they export.

use std::collections::{HashMap, HashSet};

use oxc_ast::ast::{
    BindingPattern, Class, ClassElement, Declaration, ExportDefaultDeclarationKind, Expression,
    FormalParameter, MethodDefinition, MethodDefinitionKind, Statement, TSEnumDeclaration,
    TSEnumMemberName, TSNamespaceDeclaration, TSNamespaceDeclarationBody, VariableDeclaration,
    VariableDeclarationKind,
};
use oxc_ast_visit::{Visit as _, walk};
use oxc_span::GetSpan as _;

use super::Eraser;

impl Eraser<'_> {
    /// Has a namespace have what it exports.
    pub(super) fn export_to_namespace(&mut self, name: &str, at: u32) {
        if let Some(namespace) = self.namespaces.last() {
            self.edits
                .insert(at, &format!(";{namespace}.{name} = {name};"));
        }
    }

    /// Declares the fields that a constructor's parameters are: before all others.
    pub(super) fn declare_parameters(&mut self, class: &Class<'_>) {
        let mut text = String::new();
        for member in &class.body.body {
            if let ClassElement::MethodDefinition(method) = member
                && method.kind == MethodDefinitionKind::Constructor
                && method.value.body.is_some()
            {
                text.extend(declared_by(method).map(|name| format!(" {name};")));
            }
        }
        if !text.is_empty() {
            self.edits.insert(class.body.span.start + 1, &text);
        }
    }

    /// Assigns what a constructor's parameters declare.
    pub(super) fn assign_parameters(&mut self, method: &MethodDefinition<'_>) {
        let assigned = declared_by(method).map(|name| format!(" this.{name} = {name};"));
        let text: String = assigned.collect();
        let Some(body) = method.value.body.as_ref().filter(|_| !text.is_empty()) else {
            return;
        };
        let derived = self.derived.last().copied().unwrap_or_default();
        let calls_base = |statement: &&Statement<'_>| {
            matches!(statement, Statement::ExpressionStatement(one)
                if matches!(&one.expression, Expression::CallExpression(call)
                    if matches!(call.callee, Expression::Super(_))))
        };
        let at = if derived {
            let base = body.statements.iter().find(calls_base);
            let Some(base) = base else {
                return self.refuse(
                    "a constructor that declares fields calls super() in a statement of its own",
                    body.span.start,
                );
            };
            base.span().end
        } else {
            let directive = body.directives.last();
            directive.map_or(body.span.start + 1, |last| last.span.end)
        };
        self.edits.insert(at, &format!(";{text}"));
    }

    /// Begins an enum or a namespace: what it adds to. Where that is not there yet, it is made.
    pub(super) fn begin(&mut self, name: &str, exported: bool) -> String {
        let around = self.namespaces.last().filter(|_| exported);
        let made = match around {
            Some(around) => format!("let {name} = {around}.{name} || ({around}.{name} = {{}}); "),
            None => format!("let {name} = {{}}; "),
        };
        let Some(block) = self.blocks.last_mut() else {
            return made;
        };
        if block.contains_key(name) {
            // What comes next begins with a brace.
            return ";".to_owned();
        }
        block.insert(name.to_owned(), HashSet::new());
        made
    }

    pub(super) fn namespace(&mut self, it: &TSNamespaceDeclaration<'_>, exported: bool) {
        let name = it.id.name.as_str();
        let made = self.begin(name, exported);
        // It may have something of its own name.
        let within = format!("{name}$1");
        let head = format!("{made}(({within}) => {{");
        let tail = format!("}})({name});");
        self.namespaces.push(within);
        match &it.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                self.replace(it.span.start, inner.span.start, &head);
                self.in_block(&[], |this| this.namespace(inner, true));
                self.edits.insert(it.span.end, &tail);
            }
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                self.replace(it.span.start, block.span.start + 1, &head);
                self.in_block(&block.body, |this| walk::walk_ts_module_block(this, block));
                self.replace(block.span.end - 1, block.span.end, &tail);
            }
        }
        self.namespaces.pop();
    }

    /// Goes through a block.
    pub(super) fn in_block(&mut self, statements: &[Statement<'_>], walk: impl FnOnce(&mut Self)) {
        self.blocks.push(HashMap::new());
        self.note_declared(statements);
        walk(self);
        self.blocks.pop();
    }

    /// Notes the functions and classes of a block, which an enum or a namespace may add to.
    pub(super) fn note_declared(&mut self, statements: &[Statement<'_>]) {
        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        for statement in statements {
            let declaration = match statement {
                Statement::ExportDeclaration(one) => Some(&one.declaration),
                other => other.as_declaration(),
            };
            let id = match (declaration, statement) {
                (Some(Declaration::FunctionDeclaration(one)), _) if one.body.is_some() => {
                    one.id.as_ref()
                }
                (Some(Declaration::ClassDeclaration(one)), _) if !one.declare => one.id.as_ref(),
                (_, Statement::ExportDefaultDeclaration(one)) => match &one.declaration {
                    ExportDefaultDeclarationKind::FunctionDeclaration(one) => one.id.as_ref(),
                    ExportDefaultDeclarationKind::ClassDeclaration(one) => one.id.as_ref(),
                    _ => None,
                },
                _ => None,
            };
            if let Some(id) = id {
                block.insert(id.name.to_string(), HashSet::new());
            }
        }
    }

    /// Whether an enum or a namespace adds to what is there.
    pub(super) fn adds(&self, declaration: &Declaration<'_>) -> bool {
        let name = match declaration {
            Declaration::TSEnumDeclaration(one) => one.id.name.as_str(),
            Declaration::TSNamespaceDeclaration(one) => one.id.name.as_str(),
            _ => return false,
        };
        self.blocks
            .last()
            .is_some_and(|block| block.contains_key(name))
    }

    /// The enum around that has a member of this name.
    pub(super) fn enum_with(&self, member: &str) -> Option<&str> {
        let (name, members) = self.enums.last()?;
        members.contains(member).then_some(name)
    }

    pub(super) fn enumerate(&mut self, it: &TSEnumDeclaration<'_>, exported: bool) {
        let name = it.id.name.as_str();
        let made = self.begin(name, exported);
        let block = self.blocks.last();
        let known = block.and_then(|block| block.get(name)).cloned();
        self.replace(
            it.span.start,
            it.body.span.start + 1,
            &format!("{made}(() => {{["),
        );
        self.enums
            .push((name.to_owned(), known.unwrap_or_default()));
        let mut before: Option<String> = None;
        for member in &it.body.members {
            let (key, bare) = match &member.id {
                TSEnumMemberName::Identifier(id) => {
                    (format!("\"{}\"", id.name), Some(id.name.to_string()))
                }
                TSEnumMemberName::String(text) | TSEnumMemberName::ComputedString(text) => (
                    text.span.source_text(self.code).to_owned(),
                    Some(text.value.to_string()),
                ),
                TSEnumMemberName::ComputedTemplateString(text) => {
                    (text.span.source_text(self.code).to_owned(), None)
                }
            };
            let place = format!("{name}[{key}]");
            if let Some(value) = &member.initializer {
                // Numbers lead back to their names, texts do not.
                let (open, close) = match value {
                    Expression::StringLiteral(_) | Expression::TemplateLiteral(_) => {
                        (format!("{place} = "), String::new())
                    }
                    Expression::NumericLiteral(_) => {
                        (format!("{name}[{place} = "), format!("] = {key}"))
                    }
                    _ => (
                        format!("typeof ({place} = "),
                        format!(") === \"string\" || ({name}[{place}] = {key})"),
                    ),
                };
                self.replace(member.span.start, value.span().start, &open);
                self.visit_expression(value);
                self.edits.insert(value.span().end, &close);
            } else {
                let value = before.map_or_else(|| "0".to_owned(), |before| format!("{before} + 1"));
                let text = format!("{name}[{place} = {value}] = {key}");
                self.replace(member.span.start, member.span.end, &text);
            }
            if let (Some((_, members)), Some(bare)) = (self.enums.last_mut(), bare) {
                members.insert(bare);
            }
            before = Some(place);
        }
        if let (Some((_, members)), Some(block)) = (self.enums.pop(), self.blocks.last_mut()) {
            block.insert(name.to_owned(), members);
        }
        self.replace(it.body.span.end - 1, it.body.span.end, "]})();");
    }

    pub(super) fn export_variables(&mut self, it: &VariableDeclaration<'_>) {
        for one in &it.declarations {
            match &one.id {
                BindingPattern::BindingIdentifier(id)
                    if it.kind == VariableDeclarationKind::Const =>
                {
                    let name = id.name.to_string();
                    self.export_to_namespace(&name, it.span.end);
                }
                _ => self.refuse(
                    "what a namespace exports is declared with const and one name",
                    one.span.start,
                ),
            }
        }
    }
}

/// The fields that the parameters of a constructor declare.
fn declared_by(constructor: &MethodDefinition<'_>) -> impl Iterator<Item = String> {
    let parameters = constructor.value.params.items.iter();
    let declares =
        |one: &&FormalParameter<'_>| one.accessibility.is_some() || one.readonly || one.r#override;
    parameters
        .filter(declares)
        .filter_map(|one| match &one.pattern {
            BindingPattern::BindingIdentifier(name) => Some(name.name.to_string()),
            _ => None,
        })
}
