//! What is made from the arguments: completions and manual pages.

use crate::downspout;

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = downspout(&["completions", shell], b"");
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{shell}");
        assert!(run.out.contains("max-inflated"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page_with_its_exit_codes() {
    let folder = std::env::temp_dir().join(format!("downspout-{}-man", std::process::id()));
    let run = downspout(&["man", folder.to_str().unwrap()], b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    for page in ["downspout", "downspout-decode", "downspout-decode-records"] {
        let text = std::fs::read_to_string(folder.join(format!("{page}.1"))).unwrap();
        assert!(text.contains("wrong usage"), "{page}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(downspout(&["man"], b"").out.contains("downspout"));
}
