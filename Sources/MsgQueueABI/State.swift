import CMsgQueue
import MsgQueue

@_cdecl("msgq_get_state") @implementation
public func msgq_get_state(_ queue: OpaquePointer!, _ out: UnsafeMutablePointer<msgq_state>!) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let out = try require(out, "out")
        try Structs.check(out, msgq_state.self, "msgq_state")
        Structs.write(msgq_state(try engine.state()), to: out)
    }
}

extension msgq_state {
    fileprivate init(_ state: QueueState) {
        self.init()
        connectivity = msgq_connectivity(UInt32(bitPattern: state.connectivity.rawValue))
        link = msgq_link(UInt32(bitPattern: state.link.rawValue))
        metered = state.isMetered
        lifecycle = state.isInBackground ? MSGQ_LIFECYCLE_BACKGROUND : MSGQ_LIFECYCLE_FOREGROUND
        mode = msgq_mode(UInt32(bitPattern: state.mode.rawValue))
        paused = state.isPaused
        draining = state.isDraining
        has_transport = state.hasTransport
        in_flight = UInt32(clamping: state.inFlight)
        paused_conversations = UInt64(clamping: state.pausedConversations)
        storage_trouble = state.hasStorageTrouble
        storage = state.storage.map { msgq_result(UInt32(bitPattern: $0.rawValue)) } ?? MSGQ_OK
        reason = msgq_reason(UInt32(bitPattern: state.reason.rawValue))
        until_ms = state.until
        copy(state.text, to: &text)
        copy(state.offlineReason, to: &offline_reason)
        copy(state.sqliteVersion, to: &sqlite_version)
        prompt.struct_size = UInt32(MemoryLayout<msgq_standing_prompt>.stride)
        guard let asked = state.prompt else { return }
        has_prompt = true
        prompt.timeout_ms = UInt32(clamping: asked.timeout)
        prompt.messages = UInt64(clamping: asked.messages)
        prompt.bytes = UInt64(clamping: asked.bytes)
        prompt.oldest_ms = asked.oldestAt
        prompt.conversations = UInt64(clamping: asked.conversations)
        prompt.expires_ms = state.promptExpiresAt ?? 0
        prompt_failed = UInt64(clamping: asked.failed)
        copy(Words.prompt(asked.messages, failed: asked.failed), to: &prompt.text)
    }
}
