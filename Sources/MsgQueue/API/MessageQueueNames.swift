// The descriptions of the enumerations are the names of their cases.

extension MessageQueue.Status: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .queued: "queued"
        case .sending: "sending"
        case .sent: "sent"
        case .delivered: "delivered"
        case .read: "read"
        case .failed: "failed"
        }
    }
}

extension MessageQueue.Change.Kind: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .status: "status"
        case .replaced: "replaced"
        case .discarded: "discarded"
        case .deleted: "deleted"
        case .pruned: "pruned"
        }
    }
}

extension MessageQueue.FailureKind: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .offline: "offline"
        case .timeout: "timeout"
        case .network: "network"
        case .server: "server"
        case .rateLimit: "rateLimit"
        case .unauthorized: "unauthorized"
        case .rejected: "rejected"
        case .notFound: "notFound"
        case .expired: "expired"
        case .unknown: "unknown"
        case .dropped: "dropped"
        case .local: "local"
        }
    }
}

extension MessageQueue.Mode: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .auto: "auto"
        case .ask: "ask"
        case .manual: "manual"
        }
    }
}

extension MessageQueue.Filter.Order: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .sequence: "sequence"
        case .time: "time"
        }
    }
}

extension MessageQueue.Connectivity: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .unknown: "unknown"
        case .offline: "offline"
        case .online: "online"
        }
    }
}

extension MessageQueue.Link: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .none: "none"
        case .wifi: "wifi"
        case .ethernet: "ethernet"
        case .cellular: "cellular"
        case .other: "other"
        }
    }
}

extension MessageQueue.Exhausted: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .keep: "keep"
        case .discard: "discard"
        }
    }
}

extension MessageQueue.Refused: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .keep: "keep"
        case .discard: "discard"
        }
    }
}

extension MessageQueue.FinalFailure: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .stepAside: "stepAside"
        case .block: "block"
        }
    }
}

extension MessageQueue.OnFull: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .refuse: "refuse"
        case .dropOldest: "dropOldest"
        }
    }
}

extension MessageQueue.LogLevel: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .error: "error"
        case .warning: "warning"
        case .info: "info"
        case .debug: "debug"
        }
    }
}

extension MessageQueue.Explanation.Reason: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .done: "done"
        case .next: "next"
        case .sending: "sending"
        case .failed: "failed"
        case .behind: "behind"
        case .blocked: "blocked"
        case .retrying: "retrying"
        case .scheduled: "scheduled"
        case .expired: "expired"
        case .offline: "offline"
        case .metered: "metered"
        case .paused: "paused"
        case .noTransport: "noTransport"
        case .person: "person"
        case .holding: "holding"
        case .trigger: "trigger"
        case .storage: "storage"
        case .rate: "rate"
        case .gone: "gone"
        }
    }
}

extension MessageQueue.Report.Stop: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .empty: "empty"
        case .waiting: "waiting"
        case .offline: "offline"
        case .batch: "batch"
        case .timeout: "timeout"
        case .storage: "storage"
        case .closed: "closed"
        case .started: "started"
        case .paused: "paused"
        }
    }
}

extension MessageQueue.Attempt.Outcome: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .underWay: "underWay"
        case .sent: "sent"
        case .retry: "retry"
        case .rejected: "rejected"
        case .unknown: "unknown"
        }
    }
}

extension MessageQueue.Attempt.Arrival: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .no: "no"
        case .yes: "yes"
        case .perhaps: "perhaps"
        }
    }
}

extension MessageQueue.Error.Code: CustomStringConvertible {
    /// The name of the case.
    public var description: String {
        switch self {
        case .invalid: "invalid"
        case .notFound: "notFound"
        case .duplicate: "duplicate"
        case .conflict: "conflict"
        case .busy: "busy"
        case .full: "full"
        case .tooLarge: "tooLarge"
        case .locked: "locked"
        case .closed: "closed"
        case .forked: "forked"
        case .corrupt: "corrupt"
        case .storage: "storage"
        case .unknown: "unknown"
        case .tooNew: "tooNew"
        case .permission: "permission"
        case .timeout: "timeout"
        case .noTransport: "noTransport"
        case .internal: "internal"
        }
    }
}
