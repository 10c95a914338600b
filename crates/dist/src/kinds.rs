//! The kinds of messages, of every protocol that this crate speaks over [`net`] frames. They share one byte, so they
//! are numbered here; a number is never used again for something else.

/// Declares the kinds of each protocol, and checks that no number stands twice or belongs to the handshake.
macro_rules! kinds {
    ($($(#[$doc:meta])* $protocol:ident { $($name:ident = $number:literal,)* })*) => {
        $($(#[$doc])*
        pub(crate) mod $protocol {
            $(pub(crate) const $name: u8 = $number;)*
        })*
        const ALL: &[u8] = &[$($($number,)*)*];
    };
}

kinds! {
    /// The parameter store: `store/message.rs`.
    store {
        MAP = 1,
        CREATE = 2,
        CREATED = 3,
        PUSH = 4,
        SETTLED = 5,
        PULL = 6,
        VALUE = 7,
        JOIN = 8,
        JOINED = 9,
        RECORD_RESET = 10,
        RECORD_BLOCK = 11,
        RECORD_UPDATE = 12,
        RECORD_COMMIT = 13,
        RECORD_ACK = 14,
        MOVED = 15,
        DISK_FULL = 17,
        FRESH = 18,
        DUMP = 19,
        RESTORE = 20,
        SAVE = 21,
        SNAPPED = 22,
    }
    /// Collectives: `collective/exchange.rs`.
    collective {
        DATA = 64,
        ABORT = 65,
    }
    /// The membership store: `membership/kv.rs`.
    membership {
        GET = 80,
        WAIT = 81,
        SET = 82,
        LEASE = 83,
        ADD = 84,
        COMPARE_SET = 85,
        DELETE = 86,
        HEARTBEAT = 87,
        REPLY = 88,
    }
}

const _: () = {
    let mut i = 0;
    while i < ALL.len() {
        assert!(ALL[i] > 0 && ALL[i] < net::HANDSHAKE_KINDS, "a kind belongs to the handshake");
        assert!(i == 0 || ALL[i - 1] < ALL[i], "kinds are numbered in order, each once");
        i += 1;
    }
};
