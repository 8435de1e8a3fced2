// Tools for agents, backed by a sandbox: what models of Anthropic and OpenAI call, and what they are told.

export {
  AnthropicTools, BashTool, TextEditorTool, type BashInput, type EditorInput, type ToolResult, type ToolResultBlock, type ToolUse,
} from "./anthropic.js";
export {
  ApplyPatchTool, OpenAITools, ShellTool, type ApplyPatchCall, type ApplyPatchCallOutput, type LocalShellCall, type LocalShellCallOutput,
  type OpenAIToolCall, type OpenAIToolOutput, type ShellCall, type ShellCallOutput,
} from "./openai.js";
export { PatchError, applyDiff, parsePatch, type PatchOperation } from "./patch.js";
export { excerpt } from "./excerpt.js";
export type { ShellOptions } from "./shell.js";
