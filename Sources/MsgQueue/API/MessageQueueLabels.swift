extension MessageQueue.Status {
    /// The word for users: "Queued", "Sending…", "Sent", "Delivered", "Read", "Failed".
    public var label: String { Words.label(self) }

    /// The name of an icon: "clock", "arrow-up", "check", "check-double", "eye", "alert".
    public var iconName: String { Words.icon(self) }
}

extension MessageQueue.Connectivity {
    /// The word for users: "Unknown", "Offline", "Online".
    public var label: String { Words.label(self) }
}
