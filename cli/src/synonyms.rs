//! The words of other tools for what is a command here.

/// Of a command that is unknown.
pub fn advice(word: &str) -> Option<&'static str> {
    Some(match word {
        "exec" | "with" => "run",
        "acquire" | "take" => "lock",
        "release" | "free" => "unlock",
        "extend" | "refresh" => "renew",
        "list" | "queues" | "locks" => "ls",
        "show" | "info" | "get" | "describe" | "holders" | "waiters" => "inspect",
        "force-unlock" | "force-release" | "kill" | "del" | "delete" | "rm" | "remove" => "break",
        "watch" | "monitor" => "top",
        "ping" | "health" => "status",
        "check" | "diagnose" => "doctor",
        "completion" => "completions",
        _ => return None,
    })
}
