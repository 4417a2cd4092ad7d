extension MessageQueue.Status {
    /// A word for a person: "Queued", "Sending…", "Sent", "Delivered", "Read", "Failed".
    public var label: String { Words.label(self) }

    /// The name of an icon: "clock", "arrow-up", "check", "check-double", "eye", "alert".
    public var iconName: String { Words.icon(self) }
}

extension MessageQueue.Connectivity {
    /// A word for a person: "Unknown", "Offline", "Online".
    public var label: String { Words.label(self) }
}
