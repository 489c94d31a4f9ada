//! The server's own settings, where a command needs one that no function of the module API tells.

use super::api::api;
use super::context::Context;
use std::ffi::CStr;

/// None where the server does not tell it, for instance since CONFIG has another name.
pub(super) fn value(context: &Context, name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: two C strings, as the format says. The reply is ours and freed below; what is in it is copied before.
    unsafe {
        let (format, get) = (c"cc".as_ptr(), c"GET".as_ptr());
        let reply = api!(RedisModule_Call(context.as_ptr(), c"CONFIG".as_ptr(), format, get, name.as_ptr()));
        if reply.is_null() {
            return None;
        }
        // Of an array: the name, and its value.
        let value = api!(RedisModule_CallReplyArrayElement(reply, 1));
        let mut length = 0;
        let bytes = if value.is_null() {
            std::ptr::null()
        } else {
            api!(RedisModule_CallReplyStringPtr(value, &raw mut length))
        };
        let copy = (!bytes.is_null()).then(|| std::slice::from_raw_parts(bytes.cast(), length).to_vec());
        api!(RedisModule_FreeCallReply(reply));
        copy
    }
}
