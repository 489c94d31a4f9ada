//! What keys mean.

use super::state::{Action, State};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

const PAGE: isize = 10;
const ALL: isize = isize::MAX;

/// `None` for a key that means nothing here. A new size of the window is drawn in any case.
pub fn action(event: &Event, state: &State) -> Option<Action> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = *event else { return None };
    if modifiers.contains(KeyModifiers::CONTROL) {
        return (code == KeyCode::Char('c')).then_some(Action::Quit);
    }
    match state {
        State { help: true, .. } => in_help(code),
        State { question: Some(_), .. } => answering(code),
        State { typing: true, .. } => while_typing(code),
        _ => moving(code).or_else(|| commanding(code, state.detail.is_some())),
    }
}

fn in_help(code: KeyCode) -> Option<Action> {
    matches!(code, KeyCode::Char('q' | '?') | KeyCode::Esc | KeyCode::Enter).then_some(Action::Back)
}

/// Nothing but a `y` is a yes.
fn answering(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char('y' | 'Y') => Some(Action::Agree),
        KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc | KeyCode::Enter => Some(Action::Decline),
        _ => moving(code),
    }
}

fn while_typing(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char(character) => Action::Type(character),
        KeyCode::Backspace => Action::Erase,
        KeyCode::Enter => Action::Keep,
        KeyCode::Esc => Action::Clear,
        _ => return moving(code),
    })
}

fn moving(code: KeyCode) -> Option<Action> {
    Some(Action::Move(match code {
        KeyCode::Up => -1,
        KeyCode::Down => 1,
        KeyCode::PageUp => -PAGE,
        KeyCode::PageDown => PAGE,
        KeyCode::Home => -ALL,
        KeyCode::End => ALL,
        _ => return None,
    }))
}

fn commanding(code: KeyCode, in_detail: bool) -> Option<Action> {
    Some(match (code, in_detail) {
        #[cfg(feature = "panic-probe")]
        (KeyCode::F(12), _) => panic!("a probe"),
        (KeyCode::Char('k'), _) => Action::Move(-1),
        (KeyCode::Char('j'), _) => Action::Move(1),
        (KeyCode::Char('?'), _) => Action::Help,
        (KeyCode::Char('b'), _) => Action::Break,
        (KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter, true) => Action::Back,
        (KeyCode::Char('q'), false) => Action::Quit,
        (KeyCode::Char('s'), false) => Action::Sort,
        (KeyCode::Char('r'), false) => Action::Reverse,
        (KeyCode::Char('h'), false) => Action::Held,
        (KeyCode::Char('/'), false) => Action::Filter,
        (KeyCode::Esc, false) => Action::Clear,
        (KeyCode::Enter, false) => Action::Inspect,
        _ => return None,
    })
}
