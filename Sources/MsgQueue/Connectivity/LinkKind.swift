import CPlatform

/// Determines the kind of a link.
enum LinkKind {
    /// `deviceType`: the type in sysfs ("wlan", "wwan", …); "" if it has none.
    static func of(_ link: KernelLink, deviceType: String) -> Link {
        switch deviceType {
        case "wlan": return .wifi
        case "wwan": return .cellular
        default: break
        }
        switch link.kind {
        case "wwan", "rmnet": return .cellular
        default: break
        }
        switch Int32(link.hardware) {
        case ARPHRD_ETHER: return .ethernet
        case ARPHRD_IEEE80211, ARPHRD_IEEE80211_PRISM, ARPHRD_IEEE80211_RADIOTAP: return .wifi
        default: return .other
        }
    }
}
