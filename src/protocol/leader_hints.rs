//! Hints about the leader that come with an answer (KIP-951): Produce 10 and Fetch 16 on.

message! {
    /// A leader and its epoch.
    LeaderIdAndEpoch {
        /// Broker id, −1 for unknown.
        [0+] leader_id: i32 = -1;
        /// Its epoch, −1 for unknown.
        [0+] leader_epoch: i32 = -1;
    }

    /// Address of a broker.
    NodeEndpoint {
        /// Broker id.
        [0+] node_id: i32;
        /// Host name or address.
        [0+] host: String;
        /// Port.
        [0+] port: i32;
        /// Rack, null for none.
        [0+, null 0+] rack: Option<String>;
    }
}
