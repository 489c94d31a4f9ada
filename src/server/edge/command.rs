//! What a command is: its description for the server, and `enter`, the one function that the server calls, which sends the one
//! reply.

use super::reply::{self, Reply};
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
use rlock_core::words::{self, Argument, Audience, Error, Form, KeyUse, OptionWord};
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// A command of the module.
pub trait Command {
    /// Its entry in the table, from which COMMAND DOCS and COMMAND INFO follow.
    const WORDS: &'static words::Command;

    /// # Errors
    /// The error reply. A command that fails must have changed nothing.
    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error>;
}

/// A command in the form in which it is registered with the server.
#[derive(Clone, Copy)]
pub struct Registration {
    words: &'static words::Command,
    enter: unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int,
}

impl Registration {
    #[must_use]
    pub const fn of<C: Command>() -> Self {
        Self { words: C::WORDS, enter: enter::<C> }
    }
}

/// Runs a command and replies once, whatever happens in it: a panic that reached the server would abort it.
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
    if C::WORDS.key == KeyUse::UpdatesSeveral && reports_keys(&context, arguments) {
        return flag::OK;
    }
    context.is_command = true;
    let answer = catch_unwind(AssertUnwindSafe(|| C::run(&context, arguments)));
    reply::send(&context, answer.unwrap_or(Err(Error::Internal)));
    flag::OK
}

/// If the server only asks where the keys are, reports that. If a module's command takes a number of keys, most servers cannot
/// find them in another way: a node of a cluster would then run the command even if their slots are elsewhere.
fn reports_keys(context: &Context, arguments: &[Str<'_>]) -> bool {
    // SAFETY: the context is alive.
    if unsafe { api!(RedisModule_IsKeysPositionRequest(context.as_ptr())) } == 0 {
        return false;
    }
    let count = arguments.get(1).and_then(|count| std::str::from_utf8(count.bytes()).ok()?.parse().ok());
    for place in (2..arguments.len()).take(count.unwrap_or(0)) {
        if let Ok(place) = c_int::try_from(place) {
            // SAFETY: the context is alive, and belongs to a request for places.
            unsafe { api!(RedisModule_KeyAtPos(context.as_ptr(), place)) };
        }
    }
    true
}

/// The version that introduced all commands so far.
const SINCE: &CStr = c"0.1.0";

/// The ACL category of the commands that services need.
const CATEGORY: &CStr = c"rlock";

/// Registers all commands with the server.
pub fn register(context: &Context, commands: &[Registration]) -> Result<(), String> {
    // SAFETY: the context is alive and the name is copied. On servers before Redis 7.4 and Valkey 8.0, a module cannot add
    // a category.
    let own_category = unsafe {
        raw::RedisModule_AddACLCategory.is_some_and(|add| add(context.as_ptr(), CATEGORY.as_ptr()) == flag::OK)
    };
    for Registration { words, enter } in commands {
        let refused = format!("the server refuses the command {}", words.name);
        let key = c_int::from(!matches!(words.key, KeyUse::NoKey | KeyUse::UpdatesSeveral));
        let mut texts = Texts::default();
        let (name, flags) = (texts.add(&words.name.to_lowercase()), texts.add(words.flags));
        let context = context.as_ptr();
        // SAFETY: the context is alive, and the server copies both strings; the entry is a command function.
        let created = unsafe { api!(RedisModule_CreateCommand(context, name, Some(*enter), flags, key, key, key)) };
        at_load(created, &refused)?;
        // SAFETY: the command was created just now.
        let command = unsafe { api!(RedisModule_GetCommand(context, name)) };
        at_load(describe(command, words), &refused)?;
        // SAFETY: the command is alive, and the names are copied. Before Redis 7.2, modules' commands are in no category at
        // all.
        let categorized = unsafe {
            raw::RedisModule_SetCommandACLCategories
                .map_or(flag::OK, |set| set(command, categories(words.audience, own_category).as_ptr()))
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

fn describe(command: *mut raw::RedisModuleCommand, words: &words::Command) -> c_int {
    let (least, may_have_more) = words.arity();
    let arity = c_int::try_from(least).unwrap_or(0);
    let mut texts = Texts::default();
    let mut key_specs = key_specs(words.key);
    let info = raw::RedisModuleCommandInfo {
        version: VERSION,
        summary: texts.add(words.summary),
        complexity: texts.add(words.complexity),
        since: SINCE.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: if may_have_more { arity.saturating_neg() } else { arity },
        key_specs: key_specs.as_mut_ptr(),
        args: texts.documents(words),
    };
    // SAFETY: everything that `info` points to lives until the end of this function, and the server copies it.
    unsafe { api!(RedisModule_SetCommandInfo(command, &raw const info)) }
}

/// Shows the server which fields our structures have in common with its own.
const VERSION: &raw::RedisModuleCommandInfoVersion = &raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// The list of key specs, with the entry that marks the end for the server.
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

/// A command's texts and arguments in the form in which the server takes them.
#[derive(Default)]
struct Texts {
    texts: Vec<CString>,
    lists: Vec<Vec<raw::RedisModuleCommandArg>>,
}

impl Texts {
    fn add(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text).unwrap_or_default();
        let pointer = text.as_ptr();
        self.texts.push(text);
        pointer
    }

    fn documents(&mut self, words: &words::Command) -> *mut raw::RedisModuleCommandArg {
        let (required, others): (Vec<_>, Vec<_>) = words.options.iter().partition(|option| option.is_required());
        let mut list: Vec<_> = words.arguments.iter().flat_map(|argument| self.arguments(*argument)).collect();
        list.extend(required.into_iter().chain(others).map(|option| self.option(option)));
        self.list(list)
    }

    /// Keeps a list of arguments, and adds the entry that marks the end for the server.
    fn list(&mut self, mut list: Vec<raw::RedisModuleCommandArg>) -> *mut raw::RedisModuleCommandArg {
        list.push(end_of_arguments());
        let pointer = list.as_mut_ptr();
        self.lists.push(list);
        pointer
    }

    fn arguments(&mut self, argument: Argument) -> Vec<raw::RedisModuleCommandArg> {
        let kind = match argument.form() {
            Form::Key => KEY,
            Form::Text(..) | Form::Value => TEXT,
            Form::Number(..) => INTEGER,
        };
        let mut value = self.argument(argument.name(), kind, flag::REQUIRED);
        match argument {
            Argument::Keys => {
                value.flags |= flag::REPEATED;
                vec![self.argument("numkeys", INTEGER, flag::REQUIRED), value]
            }
            Argument::Tickets => {
                value.flags |= flag::OPTIONAL | flag::REPEATED;
                vec![value]
            }
            _ => vec![value],
        }
    }

    fn option(&mut self, option: &OptionWord) -> raw::RedisModuleCommandArg {
        let flags = if option.is_required() { flag::REQUIRED } else { flag::OPTIONAL };
        let name = option.words.join("-or-").to_lowercase();
        let mut behind: Vec<_> = option.arguments().iter().flat_map(|argument| self.arguments(*argument)).collect();
        let mut argument = match behind.len() {
            0 if option.words.len() > 1 => {
                let words = option.words.iter().map(|word| self.word(word, flag::REQUIRED)).collect();
                let argument = self.argument(&name, ONE_OF, flags);
                return raw::RedisModuleCommandArg { subargs: self.list(words), ..argument };
            }
            0 => return option.words.iter().map(|word| self.word(word, flags)).next().unwrap_or_else(end_of_arguments),
            1 => raw::RedisModuleCommandArg { flags, ..behind.remove(0) },
            _ => raw::RedisModuleCommandArg { subargs: self.list(behind), ..self.argument(&name, BLOCK, flags) },
        };
        argument.token = option.words.first().map_or(ptr::null(), |word| self.add(word));
        argument
    }

    fn word(&mut self, word: &str, flags: c_int) -> raw::RedisModuleCommandArg {
        let token = self.add(word);
        raw::RedisModuleCommandArg { token, ..self.argument(&word.to_lowercase(), WORD, flags) }
    }

    fn argument(
        &mut self,
        name: &str,
        kind: raw::RedisModuleCommandArgType,
        flags: c_int,
    ) -> raw::RedisModuleCommandArg {
        let key_spec_index = if kind == KEY { 0 } else { -1 };
        raw::RedisModuleCommandArg { name: self.add(name), type_: kind, flags, key_spec_index, ..end_of_arguments() }
    }
}

fn end_of_arguments() -> raw::RedisModuleCommandArg {
    // SAFETY: a plain C structure of numbers and pointers, for which all zeros are valid and mean the list's end.
    unsafe { std::mem::zeroed() }
}
