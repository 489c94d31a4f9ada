//! Telling the server of a command: its flags, keys, arguments and documentation.

use super::spec::{Argument, Audience, KeyUse, Registration, Spec};
use crate::server::ffi::api::{api, flag};
use crate::server::ffi::context::Context;
use redis_module::raw;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// The version in which all commands so far came.
const SINCE: &CStr = c"0.1.0";

/// The ACL category of the commands that services need.
const CATEGORY: &CStr = c"rlock";

pub fn register(context: &Context, commands: &[Registration]) -> Result<(), String> {
    let own_category = add_category(context);
    for command in commands {
        let spec = command.spec;
        create(context, command)
            .and_then(|()| describe(context, spec, own_category))
            .ok_or_else(|| format!("the server refuses the command {}", spec.name.to_string_lossy()))?;
    }
    Ok(())
}

fn create(context: &Context, command: &Registration) -> Option<()> {
    let spec = command.spec;
    let key = c_int::from(spec.key != KeyUse::NoKey);
    // SAFETY: the context is alive, and the server copies both strings; the entry is a command function.
    let created = unsafe {
        api!(RedisModule_CreateCommand(
            context.as_ptr(),
            spec.name.as_ptr(),
            Some(command.entry),
            spec.flags.as_ptr(),
            key,
            key,
            key,
        ))
    };
    is_ok(created)
}

/// Servers before Redis 7.4 and Valkey 8.0 know no categories of modules' own.
fn add_category(context: &Context) -> bool {
    // SAFETY: the context is alive and the name is copied.
    unsafe {
        raw::RedisModule_AddACLCategory.is_some_and(|add| is_ok(add(context.as_ptr(), CATEGORY.as_ptr())).is_some())
    }
}

fn describe(context: &Context, spec: &Spec, own_category: bool) -> Option<()> {
    // SAFETY: the command was created before; everything that `info` points to lives until the end of this block, and
    // the server copies it.
    unsafe {
        let command = api!(RedisModule_GetCommand(context.as_ptr(), spec.name.as_ptr()));
        let mut choices: Vec<_> = spec.arguments.iter().map(|argument| sub_arguments(*argument)).collect();
        let mut arguments: Vec<_> = spec
            .arguments
            .iter()
            .zip(&mut choices)
            .map(|(argument, choices)| documented(*argument, choices))
            .chain([end_of_arguments()])
            .collect();
        let mut key_specs = [key_spec(spec.key), end_of_key_specs()];
        let info = raw::RedisModuleCommandInfo {
            version: VERSION,
            summary: spec.summary.as_ptr(),
            complexity: spec.complexity.as_ptr(),
            since: SINCE.as_ptr(),
            history: ptr::null_mut(),
            tips: ptr::null(),
            arity: spec.arity,
            key_specs: key_specs.as_mut_ptr(),
            args: arguments.as_mut_ptr(),
        };
        is_ok(api!(RedisModule_SetCommandInfo(command, &raw const info)))?;
        // Servers before Redis 7.2 put modules' commands in no category at all.
        let Some(set_categories) = raw::RedisModule_SetCommandACLCategories else { return Some(()) };
        is_ok(set_categories(command, categories(spec.audience, own_category).as_ptr()))
    }
}

fn categories(audience: Audience, own_category: bool) -> &'static CStr {
    match audience {
        Audience::Services if own_category => c"write rlock",
        Audience::Services => c"write",
        Audience::Onlookers => c"read",
        Audience::Operators => c"admin dangerous",
    }
}

fn is_ok(result: c_int) -> Option<()> {
    (result == flag::OK).then_some(())
}

/// Says which fields the server's own and our structures have in common.
const VERSION: &raw::RedisModuleCommandInfoVersion = &raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

fn key_spec(key: KeyUse) -> raw::RedisModuleCommandKeySpec {
    let mut key_spec = end_of_key_specs();
    let key = match key {
        KeyUse::NoKey => return key_spec,
        KeyUse::Reads => raw::REDISMODULE_CMD_KEY_RO,
        KeyUse::Updates => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
        KeyUse::Deletes => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
    };
    key_spec.flags = u64::from(key | raw::REDISMODULE_CMD_KEY_ACCESS);
    key_spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    key_spec.bs.index.pos = 1;
    key_spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    key_spec.fk.range = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 { lastkey: 0, keystep: 1, limit: 0 };
    key_spec
}

fn end_of_key_specs() -> raw::RedisModuleCommandKeySpec {
    // SAFETY: a plain C structure of numbers and pointers, for which all zeros are valid and mean the list's end.
    unsafe { std::mem::zeroed() }
}

fn end_of_arguments() -> raw::RedisModuleCommandArg {
    // SAFETY: as above.
    unsafe { std::mem::zeroed() }
}

/// What an argument is made of, with the list's end; empty for most.
fn sub_arguments(argument: Argument) -> Vec<raw::RedisModuleCommandArg> {
    let parts: Vec<_> = match argument {
        Argument::OneOf { words, .. } => {
            words.iter().map(|(name, word)| documented(Argument::Flag { name, word }, &mut Vec::new())).collect()
        }
        Argument::Block { texts, .. } => {
            texts.iter().map(|name| documented(Argument::Text(name), &mut Vec::new())).collect()
        }
        _ => return Vec::new(),
    };
    parts.into_iter().map(required).chain([end_of_arguments()]).collect()
}

fn required(mut argument: raw::RedisModuleCommandArg) -> raw::RedisModuleCommandArg {
    argument.flags = flag::REQUIRED;
    argument
}

fn documented(argument: Argument, choices: &mut Vec<raw::RedisModuleCommandArg>) -> raw::RedisModuleCommandArg {
    use raw::{
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK as BLOCK,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER as INTEGER,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY as KEY,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF as ONE_OF,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN as WORD,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING as TEXT,
    };
    let (name, kind, word, optional) = match argument {
        Argument::Key(name) => (name, KEY, None, false),
        Argument::Text(name) => (name, TEXT, None, false),
        Argument::Texts(name) => (name, TEXT, None, true),
        Argument::Block { name, word, .. } => (name, BLOCK, Some(word), true),
        Argument::Integer(name) => (name, INTEGER, None, false),
        Argument::Flag { name, word } => (name, WORD, Some(word), true),
        Argument::Option { name, word } => (name, INTEGER, Some(word), true),
        Argument::OneOf { name, .. } => (name, ONE_OF, None, true),
    };
    let mut documented = end_of_arguments();
    documented.name = name.as_ptr();
    documented.type_ = kind;
    documented.key_spec_index = if kind == KEY { 0 } else { -1 };
    documented.token = word.map_or(ptr::null::<c_char>(), CStr::as_ptr);
    documented.flags = if optional { flag::OPTIONAL } else { flag::REQUIRED };
    if matches!(argument, Argument::Texts(_)) {
        documented.flags |= flag::REPEATED;
    }
    documented.subargs = if choices.is_empty() { ptr::null_mut() } else { choices.as_mut_ptr() };
    documented
}
