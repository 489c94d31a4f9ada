//! What a command is: what the server is told of it, and the way into it, which is the one function that the server calls,
//! with the one reply that it gets.

use super::reply::{self, ErrorLine, Reply};
use crate::server::ffi::api::{api, at_load, flag};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use redis_module::commands::{BeginSearch, FindKeys, KeySpec, KeySpecFlags, get_redis_key_spec};
use redis_module::raw::{
    self, RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK as BLOCK,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER as INTEGER,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY as KEY,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF as ONE_OF,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN as WORD,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING as TEXT,
};
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// A command of the module.
pub trait Command {
    const SPEC: Spec;

    /// # Errors
    /// The error reply. It must then have changed nothing.
    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine>;
}

/// What the server needs to know of a command; the source of COMMAND DOCS and COMMAND INFO. The lock's key, if the
/// command has one, is the first argument; or the number of its keys is, if it has several.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub name: &'static CStr,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    /// As the server's function takes them.
    pub flags: &'static CStr,
    pub audience: Audience,
    pub key: KeyUse,
    /// In the order of the grammar, an argument each: `name`, `WORD name`; `[WORD]`, `[WORD name …]`, `[ONE|OTHER]`, which may be left
    /// out; `name ...`, of which there is any number but none; `[name ...]`, of which there may be none.
    pub arguments: &'static [&'static str],
}

/// The users that get the command, by the ACL categories that it is in.
#[derive(Clone, Copy, Debug)]
pub enum Audience {
    /// Clients that lock.
    Services,
    /// Clients that only look.
    Onlookers,
    /// People who may take a lock away from its holder. In none of the categories that services get, such as `write`.
    Operators,
}

/// The most that the command does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The command has no key.
    NoKey,
    Reads,
    Updates,
    /// The first argument says how many keys follow.
    UpdatesSeveral,
    Deletes,
}

/// A command in the form in which the server takes it.
#[derive(Clone, Copy)]
pub struct Registration {
    spec: &'static Spec,
    enter: unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int,
}

impl Registration {
    #[must_use]
    pub const fn of<C: Command>() -> Self {
        Self { spec: &C::SPEC, enter: enter::<C> }
    }
}

/// Runs a command and replies once, whatever happens in it: a panic must not reach the server, which it would abort.
///
/// # Safety
/// To be called by the server, for a command.
unsafe extern "C" fn enter<C: Command>(
    context: *mut raw::RedisModuleCtx,
    strings: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    // SAFETY: the server passes a context and arguments that live until this function returns.
    let (mut context, arguments) = unsafe { (Context::new(context), Str::arguments(strings, count)) };
    if C::SPEC.key == KeyUse::UpdatesSeveral && tells_keys(&context, arguments) {
        return flag::OK;
    }
    context.is_command = true;
    let answer = catch_unwind(AssertUnwindSafe(|| C::run(&context, arguments)));
    reply::send(&context, answer.unwrap_or(Err(PANICKED)));
    flag::OK
}

/// Where the server only wants to know where the keys are, tells it. Most servers find those of a module's command that says
/// how many they are in no other way, and a node of a cluster would run it whoever has their slots.
fn tells_keys(context: &Context, arguments: &[Str<'_>]) -> bool {
    // SAFETY: the context is alive.
    if unsafe { api!(RedisModule_IsKeysPositionRequest(context.as_ptr())) } == 0 {
        return false;
    }
    let count = arguments.get(1).and_then(|count| std::str::from_utf8(count.bytes()).ok()?.parse().ok());
    for place in (2..arguments.len()).take(count.unwrap_or(0)) {
        if let Ok(place) = c_int::try_from(place) {
            // SAFETY: the context is alive, and that of a request for places.
            unsafe { api!(RedisModule_KeyAtPos(context.as_ptr(), place)) };
        }
    }
    true
}

const PANICKED: ErrorLine =
    ErrorLine(c"ERR internal error in rlock: the server's log has the details, and the lock may have changed");

/// The version in which all commands so far came.
const SINCE: &CStr = c"0.1.0";

/// The ACL category of the commands that services need.
const CATEGORY: &CStr = c"rlock";

/// Tells the server of all commands.
pub fn register(context: &Context, commands: &[Registration]) -> Result<(), String> {
    // SAFETY: the context is alive and the name is copied. Servers before Redis 7.4 and Valkey 8.0 know no categories of
    // modules' own.
    let own_category = unsafe {
        raw::RedisModule_AddACLCategory.is_some_and(|add| add(context.as_ptr(), CATEGORY.as_ptr()) == flag::OK)
    };
    for Registration { spec, enter } in commands {
        let refused = format!("the server refuses the command {}", spec.name.to_string_lossy());
        let key = c_int::from(!matches!(spec.key, KeyUse::NoKey | KeyUse::UpdatesSeveral));
        let (context, name, flags) = (context.as_ptr(), spec.name.as_ptr(), spec.flags.as_ptr());
        // SAFETY: the context is alive, and the server copies both strings; the entry is a command function.
        let created = unsafe { api!(RedisModule_CreateCommand(context, name, Some(*enter), flags, key, key, key)) };
        at_load(created, &refused)?;
        // SAFETY: the command was created just now.
        let command = unsafe { api!(RedisModule_GetCommand(context, name)) };
        at_load(describe(command, spec), &refused)?;
        // SAFETY: the command is alive, and the names are copied. Servers before Redis 7.2 put modules' commands in no
        // category at all.
        let categorized = unsafe {
            raw::RedisModule_SetCommandACLCategories
                .map_or(flag::OK, |set| set(command, categories(spec.audience, own_category).as_ptr()))
        };
        at_load(categorized, &refused)?;
    }
    Ok(())
}

fn categories(audience: Audience, own_category: bool) -> &'static CStr {
    match audience {
        Audience::Services if own_category => c"write rlock",
        Audience::Services => c"write",
        Audience::Onlookers => c"read",
        Audience::Operators => c"admin dangerous",
    }
}

fn describe(command: *mut raw::RedisModuleCommand, spec: &Spec) -> c_int {
    let required = spec.arguments.iter().take_while(|argument| !argument.starts_with('['));
    let has_options = required.clone().count() < spec.arguments.len();
    let words = required.flat_map(|argument| argument.split(' ')).filter(|word| *word != "...").count();
    let arity = c_int::try_from(words).unwrap_or(0).saturating_add(1);
    let mut documents = Documents::default();
    let mut key_specs = key_specs(spec.key);
    let info = raw::RedisModuleCommandInfo {
        version: VERSION,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: SINCE.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: if has_options { arity.saturating_neg() } else { arity },
        key_specs: key_specs.as_mut_ptr(),
        args: documents.list(spec.arguments),
    };
    // SAFETY: everything that `info` points to lives until the end of this function, and the server copies it.
    unsafe { api!(RedisModule_SetCommandInfo(command, &raw const info)) }
}

/// Says which fields the server's own and our structures have in common.
const VERSION: &raw::RedisModuleCommandInfoVersion = &raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// A list, as the server takes it: with its end.
fn key_specs(key: KeyUse) -> Vec<raw::RedisModuleCommandKeySpec> {
    let flags = match key {
        KeyUse::NoKey => return get_redis_key_spec(Vec::new()),
        KeyUse::Reads => KeySpecFlags::READ_ONLY,
        KeyUse::Updates | KeyUse::UpdatesSeveral => KeySpecFlags::READ_WRITE | KeySpecFlags::UPDATE,
        KeyUse::Deletes => KeySpecFlags::READ_WRITE | KeySpecFlags::DELETE,
    };
    let several = key == KeyUse::UpdatesSeveral;
    let keys = if several { FindKeys::new_keys_num(0, 1, 1) } else { FindKeys::new_range(0, 1, 0) };
    get_redis_key_spec(vec![KeySpec::new(None, flags | KeySpecFlags::ACCESS, BeginSearch::new_index(1), keys)])
}

/// A command's arguments in the form in which the server takes them, and what they point to.
#[derive(Default)]
struct Documents {
    names: Vec<CString>,
    lists: Vec<Vec<raw::RedisModuleCommandArg>>,
}

impl Documents {
    fn name(&mut self, name: &str) -> *const c_char {
        let name = CString::new(name).unwrap_or_default();
        let pointer = name.as_ptr();
        self.names.push(name);
        pointer
    }

    /// A list, as the server takes it: with its end.
    fn list(&mut self, grammar: &[&str]) -> *mut raw::RedisModuleCommandArg {
        let mut list: Vec<_> = grammar.iter().map(|argument| self.argument(argument)).collect();
        list.push(end_of_arguments());
        let pointer = list.as_mut_ptr();
        self.lists.push(list);
        pointer
    }

    fn argument(&mut self, grammar: &str) -> raw::RedisModuleCommandArg {
        let option = grammar.strip_prefix('[').and_then(|option| option.strip_suffix(']'));
        let words: Vec<_> = option.unwrap_or(grammar).split(' ').collect();
        let mut argument = end_of_arguments();
        argument.flags = if option.is_some() { flag::OPTIONAL } else { flag::REQUIRED };
        let (name, kind, word) = match words[..] {
            [words] if words.contains('|') => {
                argument.subargs = self.list(&words.split('|').collect::<Vec<_>>());
                (words, ONE_OF, None)
            }
            [word] if word == word.to_uppercase() => (word, WORD, Some(word)),
            [name, "..."] => {
                argument.flags |= flag::REPEATED;
                (name, kind_of(name), None)
            }
            [word, name] => (name, kind_of(name), Some(word)),
            [word, _, ..] => {
                argument.subargs = self.list(words.get(1..).unwrap_or_default());
                (word, BLOCK, Some(word))
            }
            _ => (grammar, kind_of(grammar), None),
        };
        argument.name = self.name(&name.to_lowercase().replace('|', "-or-"));
        argument.type_ = kind;
        argument.key_spec_index = if kind == KEY { 0 } else { -1 };
        argument.token = word.map_or(ptr::null(), |word| self.name(word));
        argument
    }
}

fn kind_of(name: &str) -> raw::RedisModuleCommandArgType {
    match name {
        "key" => KEY,
        "lease-ms" | "limit" | "wait-ms" | "max-waiters" | "ttl-ms" | "seq" | "count" | "id" | "numkeys" => INTEGER,
        _ => TEXT,
    }
}

fn end_of_arguments() -> raw::RedisModuleCommandArg {
    // SAFETY: a plain C structure of numbers and pointers, for which all zeros are valid and mean the list's end.
    unsafe { std::mem::zeroed() }
}
