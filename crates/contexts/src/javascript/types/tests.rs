//! What is left of TypeScript, run by Node beside what a compiler makes of it.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use oxc_allocator::Allocator;
use oxc_codegen::Codegen;
use oxc_parser::Parser;
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;
use oxc_transformer::{TransformOptions, Transformer};
use proptest::prelude::*;

use super::*;

/// Each ends with an expression whose value tells.
const PROGRAMS: &[&str] = &[
    "const a: number = 1, b: string | undefined = 'x'; let c!: number; c = 2; `${a}${b}${c}`",
    "function f<T extends object>(this: void, a?: T, ...rest: Array<T>): asserts a is T { return rest.length as any } f({}, 1 as any)",
    "function g(this: { n: number }) { return this.n } g.call({n: 4})",
    "function over(a: string): string;\nfunction over(a: number): number;\nfunction over(a: any): any { return a + 1 }\nover(1) + over('x')",
    "const arrow = async <T,>(a: T, b?: string): Promise<T> => a; typeof arrow",
    "const one = (a: number): {\n  n: number\n} => ({ n: a }); one(3).n",
    "const wide = <\n  T\n>(x: T) => x; wide<number>(5)",
    "interface P { x: number }\ntype Q = P & { y: string };\nconst p: Q = { x: 1, y: 'z' } satisfies Q;\np.x! + (p as any).y",
    "const n = 1\ninterface Hazard {}\n;[n].length",
    "let v = 1 as number\n(globalThis as any).later = 2\nv",
    "let list = [3]\nlet w = list as number[]\n[0].length",
    "const o = () => <any>{ a: 1 }; o().a",
    "const twice = <number><unknown>'7'; twice",
    "const m = new Map<string, Array<number>>([['a', [1]]]); m.get('a')!.length + m.size",
    "const e = [1, 2].map<string>((x) => `${x}`)!.join('') as string; e",
    "const lt = 1, gt = 2; [lt < gt, lt as number < gt]",
    "class A { private readonly x: number = 1; protected y?: string; static z: number = 3; declare w: number; q!: number; constructor(public a: number, private readonly b = 2, c?: string) {} sum(): number { return this.x + this.a + this.b } } const a = new A(5); [a.sum(), A.z, Object.keys(a).join()]",
    "abstract class Shape<T> { abstract area(): number; abstract name: string; public describe(): string { return `${this.area()}` } } class Sq extends Shape<number> implements Iface, Other<string> { name = 's'; constructor(private side: number) { super(); } override area() { return this.side ** 2 } } interface Iface {} interface Other<T> {} new Sq(3).describe()",
    "class B { [key: string]: unknown; ['a']: number = 1\n public ['b'] = 2\n public *[Symbol.iterator]() { yield 1 } } const b = new B(); [b.a, b.b, [...(b as any)].length]",
    "class C { constructor(a: string); constructor(a: number); constructor(readonly a: any) { 'use strict'; } m?(): void; get v(): number { return 1 } set v(x: number) {} } [new C(3).a, new C('s').v]",
    "class D<T> { static make<U>(this: new () => D<U>, u?: U) { return new this() } } D.make<string>('x') instanceof D",
    "const K = class<T> implements PromiseLike<T> { then(): any { return 8 } }; new K<number>().then()",
    "enum E { A, B = 5, C, D = 'd', F = B << 1, G = (A | C) as number, 'h-i' = 9, J } [E.A, E.B, E.C, E.D, E.F, E.G, E['h-i'], E.J, E[5], E[6], E[0], Object.keys(E).length]",
    "const enum M { One = 1, Two } M.Two",
    "enum Open { A = 1 }\nenum Open { B = 2 }\n[Open.A, Open.B]",
    "enum Trailing {\n  A, // a, b\n  B = 'b', /* c, d */\n}\nObject.values(Trailing).join()",
    "enum Outer { A = 'x'.length, B = ((n: number) => n + 1)(4) } [Outer.A, Outer.B]",
    "namespace N { export const a = 1, z = 'q'; const hidden = 2; export function f(): number { return a + hidden } export class K { v = 1 } export enum E { X = 3 } export interface T {} export type U = T; export namespace Inner { export const deep = f() } } [N.a, N.z, N.f(), new N.K().v, N.E.X, N.Inner.deep, (N as any).hidden]",
    "namespace A.B.C { export const x = 1 } A.B.C.x",
    "namespace A1 { export const x = 1 }\nnamespace A1 { export const y = 2 }\n[A1.x, A1.y]",
    "namespace OnlyTypes { export interface I {} type J = I }\ntypeof (globalThis as any).OnlyTypes",
    "declare const absent: number; declare function gone(): void; declare class Nope {} declare enum Ne { A } declare namespace Nn { const a: number } declare module 'x' { export const y: number } declare global { interface Window {} } typeof absent",
    "abstract class Z { static s = 1 } Z.s",
    "import path = require('path'); path.posix.join('a', 'b')",
    "namespace Q1 { export const v = { w: 6 } } import short = Q1.v; short.w",
    "try { throw new Error('x') } catch (e: unknown) { (e as Error).message }",
    "for (const x of [1, 2] as number[]) { var last = x as number } last",
    "for (let i = 0 as number; i < (2 as number); i++) { var seen = i } seen",
    "function assertIs(x: unknown): asserts x is string {} assertIs(1); 'fine'",
    "const obj = { m<T>(this: any, a: T): T { return a }, get g(): number { return 2 } }; obj.m<number>(1) + obj.g",
    "const u = (a?: { b?: { c: number } }) => a?.b!.c; u({ b: { c: 7 } })",
    "function def({ a, b }: { a: number; b?: string } = { a: 1 }, [c]: number[] = [2]): string { return `${a}${b}${c}` } def()",
    "let tuple: [a: string, b?: number] = ['x']; type F = new (...args: any[]) => object; tuple.length",
    "const tag = (s: TemplateStringsArray, ...v: unknown[]) => s.length + v.length; tag<string>`a${1}b`",
    "const text = 'ünïcödé: type'; interface Ü { é: string } const ñ: Ü = { é: 'ß' }; ñ.é + text.length",
    "let cond = true ? (1 as number) : <any>2; cond",
    "const f5 = function <T>(x: T): x is T & string { return true }; f5(1)",
    "type Keys<T> = { readonly [K in keyof T]?: T[K] extends infer U ? U : never }; const k: Keys<{ a: 1 }> = {}; Object.keys(k).length",
    "if (1) type(2); function type(x: number) { return x } type(3)",
    "const as = 1, satisfies = 2, type_ = as as number; as + satisfies + type_",
    "enum Response { A = 'a', B = 1 } [typeof Response, Object.keys(Response).join()]",
    "enum E1 { A = 1 } { enum E1 { B = 2 } } Object.keys(E1).join()",
    "const Shade = 'c'; { enum Shade { Red } } Shade",
    "const fs: any[] = []; for (let i = 0; i < 3; i++) { enum E2 { A = i as any } fs.push(() => E2.A) } fs.map((f) => f())",
    "enum E3 { A = 'a', B = A, C = ('z'), D = 'p' + 'q' } Object.keys(E3).join()",
    "enum E4 { A = 1 } enum E4 { B = A + 1 } [E4.B, Object.keys(E4).length]",
    "enum E6 { A }\nconst six = 6\nenum E6 { B = six }\n[E6.B, six]",
    "namespace A3 { export const x = 1 }\nconst f3 = () => 1\nnamespace A3 { export const y = 2 }\n[A3.y, f3()]",
    "enum E5 { 'A' = 1, B = A } E5.B",
    "class C1 { static a = 1 } namespace C1 { export const x = 2 } [C1.a, C1.x]",
    "function F1() { return 1 } namespace F1 { export const x = 2 } [F1(), F1.x]",
    "namespace Same { export class Same { v = 1 } } new Same.Same().v",
    "namespace Fn { export function Fn() { return 3 } } Fn.Fn()",
    "class G { get: number\n foo() { return 1 } } new G().foo()",
    "class G2 { static: number\n foo() { return 1 } } new G2().foo()",
    "class G3 { get?: () => void\n x = 1 } new G3().x",
    "class G4 { x = 1\n private in = 2 } new G4().in",
    "class G5 { static\u{a0}readonly x = 1; constructor(private\u{3000}readonly y: number) {} } [G5.x, (new G5(2) as any).y]",
    "function r() { return <T>\n (x: T) => x } r()(4)",
    "class P { y = 1; constructor(public x: number) {} } JSON.stringify(new P(2))",
    "class P2 { set x(v: number) { throw v } } class P3 extends P2 { constructor(override x: number) { super() } } new P3(2).x",
    "import fs = require('fs')\n(() => 1)()\ntypeof fs",
    "namespace Q2 { export const v = { w: 6 } }\nimport short2 = Q2.v\n[0].length\nshort2.w",
    "switch (1) { case 1: enum E7 { A } }\nenum E7 { B }\nObject.keys(E7).join()",
    "enum E8 { A }\nswitch (1 as number) { case 1: enum E8 { B } }\nObject.keys(E8).join()",
    "class Sb { static { enum E9 { A } } }\nenum E9 { B }\nObject.keys(E9).join()",
    "class G6 { get?\n foo() { return 1 } } typeof new G6().foo",
    "class G7 { static?\n foo() { return 1 } } new G7().foo()",
    "enum E10 { A = 1, B = ({ A }).A + 1, C = ({ A: 5 }).A } [E10.B, E10.C]",
    "class Acc { static #p: number = 1; static get p(): number { return Acc.#p } } Acc.p",
];

/// Pieces that change what a program means.
const SIGNS: &[&str] = &[
    "\n",
    ";",
    "(",
    ")",
    "[",
    "{",
    "}",
    "<",
    ">",
    "!",
    "?",
    ":",
    "=",
    ",",
    "`",
    " as any",
    " satisfies T",
    "<T>",
    ": T",
    "public ",
    "readonly ",
    "abstract ",
    "declare ",
    "static ",
    "export ",
    "async ",
    "enum X { A } ",
    "namespace X { export const a = 1 } ",
    "interface X {} ",
    "type X = 1; ",
    "this: T, ",
    "/* ? */",
    "// !\n",
];

/// None for what a compiler does not take either.
fn by_a_compiler(code: &str, kind: SourceType) -> Option<String> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, kind).parse();
    if !parsed.diagnostics.is_empty() {
        return None;
    }
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .build(&program);
    if !semantic.diagnostics.is_empty() {
        return None;
    }
    let scoping = semantic.semantic.into_scoping();
    let path = std::path::Path::new("run.ts");
    let options = TransformOptions::default();
    let transformer = Transformer::new(&allocator, path, &options);
    // It does not stand every program.
    let done = catch_unwind(AssertUnwindSafe(|| {
        transformer.build_with_scoping(scoping, &mut program)
    }));
    let done = done.ok().filter(|done| done.diagnostics.is_empty());
    done.map(|_| Codegen::new().build(&program).code)
}

fn is_javascript(code: &str) -> bool {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, SourceType::mjs()).parse();
    parsed.diagnostics.is_empty()
}

fn erased(code: &str) -> Result<String, Refused> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, SourceType::ts()).parse();
    assert!(
        parsed.diagnostics.is_empty(),
        "{code}: {:?}",
        parsed.diagnostics
    );
    erase(code, &parsed.program)
}

/// What Node says of each, in JSON.
fn run_all(programs: &[String]) -> Vec<String> {
    let driver = r"
        const vm = require('vm');
        const programs = JSON.parse(require('fs').readFileSync(0, 'utf8'));
        for (const code of programs) {
            let told;
            try {
                told = JSON.stringify(vm.runInNewContext(code, { require, module: {} }));
            } catch (error) {
                told = String(error);
            }
            console.log(told === undefined ? 'undefined' : told);
        }";
    let mut node = Command::new("node")
        .args(["-e", driver])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = serde_json::to_vec(programs).unwrap();
    node.stdin.take().unwrap().write_all(&text).unwrap();
    let output = node.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    told.lines().map(str::to_owned).collect()
}

#[test]
fn programs_do_the_same_as_with_a_compiler() {
    let ours: Vec<String> = PROGRAMS.iter().map(|code| erased(code).unwrap()).collect();
    let script = SourceType::ts().with_script(true);
    let theirs = PROGRAMS
        .iter()
        .map(|code| by_a_compiler(code, script).unwrap());
    let theirs: Vec<String> = theirs.collect();
    let (did, wanted) = (run_all(&ours), run_all(&theirs));
    assert_eq!(did.len(), PROGRAMS.len());
    let mut wrong = Vec::new();
    for (index, code) in PROGRAMS.iter().enumerate() {
        // An error is told without quotes.
        assert!(
            !wanted[index].starts_with(char::is_uppercase),
            "{code}: {}",
            wanted[index]
        );
        if did[index] != wanted[index] {
            wrong.push(format!(
                "{code}\n became\n{}\n gave {} instead of {}",
                ours[index], did[index], wanted[index]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What the compiler of these tests does not know.
#[test]
fn an_enum_goes_on_in_the_next_block_of_its_namespace() {
    let code = "namespace A { export enum E { X = 1 } }\nnamespace A { export enum E { Y = 2 } }\n[A.E.X, A.E.Y]";
    assert_eq!(run_all(&[erased(code).unwrap()]), ["[1,2]"]);
}

#[test]
fn lines_and_columns_stay() {
    for code in [
        "interface A {\n  a: string\n}\nconst x: {\n  n: number\n} = { n: 1 }; throw x",
        "const f = <\n  T,\n  U\n>(x: T): {\n  n: T\n} => ({ n: x });\nthrow f",
        "class A { a = 1\n private readonly b = 2; static readonly c = 3; d() { throw 1 } }",
        "let a: '\u{10400}' | 'é'; throw a",
    ] {
        let left = erased(code).unwrap();
        assert_eq!(left.lines().count(), code.lines().count(), "{left}");
        let column = |text: &str| {
            let (before, _) = text.lines().last().unwrap().split_once("throw").unwrap();
            before.encode_utf16().count()
        };
        assert_eq!(column(&left), column(code), "{left}");
    }
}

#[test]
fn modules_keep_what_is_no_type() {
    for (code, wanted) in [
        ("import type { T } from 'm'", ";"),
        (
            "import { type A, b } from 'm'",
            "import {         b } from 'm'",
        ),
        (
            "import { b, type A } from 'm'",
            "import { b,        } from 'm'",
        ),
        (
            "import d, { type A } from 'm'",
            "import d, {        } from 'm'",
        ),
        ("export type { T } from 'm'", ";"),
        ("export { type T, u }", "export {         u }"),
        ("export type * from 'm'", ";"),
        ("export interface I {}", ";"),
        ("export default interface I {}", ";"),
        ("export declare const a: 1", ";"),
        (
            "export function f(): void;\nexport function f() {}",
            ";\nexport function f() {}",
        ),
        ("export abstract class C {}", "export          class C {}"),
        ("export = x", "module.exports = x"),
        ("export as namespace N", ";"),
    ] {
        let left = erased(code).unwrap();
        let lines: Vec<&str> = left.lines().map(str::trim_end).collect();
        assert_eq!(lines.join("\n"), wanted, "{code}");
    }
}

#[test]
fn what_cannot_be_had_is_refused() {
    for code in [
        "namespace N { export let a = 1 }",
        "namespace N { export const { a } = { a: 1 } }",
        "class A extends Object { constructor(public a: number) { if (a) super() } }",
        "enum E { A = 1, B = [2].map((A) => A)[0] }",
    ] {
        assert!(erased(code).is_err(), "{code}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// What a compiler makes JavaScript of is JavaScript here, too, or is refused.
    #[test]
    fn what_is_left_is_javascript(
        picked in prop::collection::vec((0..PROGRAMS.len(), any::<bool>()), 1..4),
        cut in prop::option::of((any::<prop::sample::Index>(), 1..12_usize)),
        put in prop::option::of((any::<prop::sample::Index>(), 0..SIGNS.len())),
    ) {
        let mut code = String::new();
        for (index, apart) in picked {
            code.push_str(PROGRAMS[index]);
            code.push_str(if apart { ";\n" } else { "\n" });
        }
        let mut signs: Vec<char> = code.chars().collect();
        if let Some((at, many)) = cut {
            let at = at.index(signs.len());
            signs.drain(at..(at + many).min(signs.len()));
        }
        if let Some((at, sign)) = put {
            let at = at.index(signs.len() + 1);
            signs.splice(at..at, SIGNS[sign].chars());
        }
        let code: String = signs.into_iter().collect();
        if let Some(theirs) = by_a_compiler(&code, SourceType::ts())
            && is_javascript(&theirs)
            && let Ok(left) = erased(&code)
        {
            prop_assert!(is_javascript(&left), "{code}\n became\n{left}\n instead of\n{theirs}");
        }
    }
}
