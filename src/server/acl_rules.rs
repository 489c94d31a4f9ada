//! The server's ACL rules that name a command of ours.

use super::api::{api, flag};
use super::context::Context;

/// Whether there is one. Some servers end with an assertion when they take commands away that a rule names.
pub(super) fn name_us(context: &Context) -> bool {
    // SAFETY: one C string, as the format says. The reply is ours and freed below; its strings live as long as it does.
    unsafe {
        let reply = api!(RedisModule_Call(context.as_ptr(), c"ACL".as_ptr(), c"c".as_ptr(), c"LIST".as_ptr()));
        if reply.is_null() {
            return false;
        }
        let is_list = api!(RedisModule_CallReplyType(reply)) == flag::LIST_REPLY;
        let rules = if is_list { api!(RedisModule_CallReplyLength(reply)) } else { 0 };
        let named = (0..rules).any(|index| {
            let mut length = 0;
            let user = api!(RedisModule_CallReplyArrayElement(reply, index));
            let bytes = api!(RedisModule_CallReplyStringPtr(user, &raw mut length));
            !bytes.is_null() && names_a_command(std::slice::from_raw_parts(bytes.cast(), length))
        });
        api!(RedisModule_FreeCallReply(reply));
        named
    }
}

fn names_a_command(user: &[u8]) -> bool {
    user.split(|byte| *byte == b' ').any(|rule| matches!(rule, [b'+' | b'-', b'r', b'l', b'o', b'c', b'k', b'.', ..]))
}

#[cfg(test)]
mod tests {
    use super::names_a_command;

    #[test]
    fn a_rule_that_names_a_command() {
        assert!(names_a_command(b"user app on #1 ~app:* &* -@all +ping +rlock.acquire"));
        assert!(names_a_command(b"user app on nopass ~* +@all -rlock.break"));
        assert!(!names_a_command(b"user app on nopass ~rlock.k &rlock.c +@all"));
        assert!(!names_a_command(b"user app on nopass ~* -@all +@rlock"));
    }
}
