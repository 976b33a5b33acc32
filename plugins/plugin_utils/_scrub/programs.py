# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and arguments by which programs take a password, where neither a name nor a form of its own tells it. Pure.

Before the option at most 200 characters of other arguments are read, and 400 of those of curl.
"""

from __future__ import annotations

import re

_SAMBA = r"smbclient|smbget|smbtree|smbcacls|smbcquotas|rpcclient|winexe|wmic|net[ \t]+(?:ads|rpc|rap)"
_APART = r"[ \t]+"
_ATTACHED = r"[ \t]*"
_USER = r"[^\s%\"']{1,100}%"

# (programs, what stands before the value). Read in the source or the output of --help: curl (--help all), openssl
# (enc -help), zip (-h2), ssh-keygen(1), kubectl (create secret --help), ipmitool at be11d94 (lib/ipmi_main.c,
# ipmi_user.c, ipmi_lanp.c), mstflint at b9d9e844 (flint/subcommands.cpp: set_key, hw_access), etcdctl (--user),
# containerd's ctr (--user), containers/common pkg/auth/cli.go for podman, skopeo and buildah login, the help of "mc
# alias set", HPE's examples of ilorest and Supermicro's of SUM, sedutil at 01746a5 (Common/DtaOptions.inc), the READMEs
# of govc and of UFM's REST over RDMA (Mellanox/ufm_sdk_3.0), and published scripts with mongodump and vcli (VAST).
# mlxconfig takes paths of keys, no secret.
# By the manuals alone: smbclient(1), mount.cifs(8), ipmipower(8), bmc-config(8), snmpcmd(1), unzip(1), useradd(8),
# usermod(8), lftp(1), mongosh, sqlcmd, wpa_passphrase(8), rabbitmqctl(8), iscsiadm(8), xfreerdp(1), those of RACADM,
# Redfishtool, OneCLI, HTTPie, crane, oras, oc, az and 7-Zip, ipa-client-install(1), "net use" of Microsoft's reference,
# virsh(1), mosquitto_pub(1), mosquitto_passwd(1), rhc(1), kadmin(1), ldappasswd(1), slappasswd(8), hdparm(8),
# snmpusm(1), net-snmp-create-v3-user(1), nvme-gen-dhchap-key(1), tpm2_unseal(1), the commands of rclone (config create,
# config password, obscure), Ceph (--key of every program, "ceph config-key set"), WEKA (weka user), influx,
# rabbitmqadmin, cqlsh, esxcli, nessuscli, and SQL*Plus (logon).
_WORD = r"[^\s-]\S{0,200}"
_WORD_BEGINS = r"\b"
# Actions of sedutil-cli, in any case, and the arguments before a password of theirs.
_SED = (
    (
        r"initialsetup|listlockingranges|setbandsenabled|set(?:sidpassword|admin1pwd)|setpassword(?:_sum)?"
        r"|loadpbaimage|revert(?:tper|noerase|lockingsp)|activate(?:lockingsp)?|takeownership|psidrevert(?:adminsp)?"
        r"|yesireallywanttoeraseallmydatausingthepsid",
        "",
    ),
    (
        r"(?:list|rekey|erase|enable|disable|readonly)lockingrange(?:_sum)?|setbandenabled|setmbr(?:enable|done)"
        r"|enableuser(?:read)?|activatelockingsp_sum|set(?:sidpassword|admin1pwd)",
        r"[ \t]+\S{1,200}",
    ),
    (r"setlockingrange(?:_sum)?|setpassword(?:_sum)?", r"(?:[ \t]+\S{1,200}){2}"),
    (r"setuplockingrange(?:_sum)?|setup_sum", r"(?:[ \t]+\S{1,200}){3}"),
    ("setup_sum", r"(?:[ \t]+\S{1,200}){4}"),
)
_ROWS = (
    (_SAMBA, rf"(?:-U[ \t]*|--user[ \t=]+)[\"']?{_USER}"),
    (r"mount[ \t.]+[^\r\n]{0,200}?cifs|cifs", rf"(?:\S{{1,200}},)?user(?:name)?={_USER}"),
    ("ipmitool", rf"-[ky]{_APART}"),
    ("ipmitool", r"user[ \t]+(?:set[ \t]+password[ \t]+\d+|test[ \t]+\d+[ \t]+(?:16|20))[ \t]+"),
    ("ipmitool", r"lan[ \t]+set[ \t]+\d+[ \t]+snmp[ \t]+"),
    (r"(?:mst)?flint", r"(?:set_key|hw_access[ \t]+(?:enable|disable))[ \t]+"),
    (r"ilorest|(?:sum|saa)(?=[ \t]+-)", rf"-p{_APART}"),
    (r"ssh-keygen", rf"-N{_APART}"),
    (r"ssh-keygen", rf"-P{_APART}"),
    (r"ipa-client-install", rf"-w{_APART}"),
    (r"etcdctl", r"(?:--user[ \t=]+|user[ \t]+add[ \t]+)[^\s:\"']{1,100}:"),
    (r"ctr", r"(?:-u[ \t]+|--user[ \t=]+)[^\s:\"']{1,100}:"),
    (r"oras", rf"-p{_APART}"),
    (r"onecli", r"(?:--bmc|-b)[ \t=]+[^\s:\"']{1,100}:"),
    (r"curl", r"(?:-E[ \t]*|--(?:proxy-)?cert[ \t=]+)[\"']?[^\s:\"']{1,200}:"),
    (r"curl", r"(?:-b[ \t]*|--cookie[ \t=]+)(?=[\"']?[^\s=]{1,100}=)"),
    (r"redis-cli", r"(?i:auth)[ \t]+(?:[^\s|>&;]{1,100}[ \t]+(?=[^\s|>&;]))?"),
    (r"ipmi(?:power|console|ping|-[\w-]+)|bmc-(?:config|device|info)|ipmi-?\w*|racadm\d?|redfishtool", rf"-p{_APART}"),
    (r"ipmi(?:power|console|-[\w-]+)|bmc-(?:config|device|info)", rf"-k{_APART}"),
    (r"snmp(?:get|getnext|walk|bulkget|bulkwalk|set|table|trap|inform|status|test)", rf"-A{_APART}"),
    (r"snmp(?:get|getnext|walk|bulkget|bulkwalk|set|table|trap|inform|status|test)", rf"-X{_APART}"),
    (r"snmp(?:get|getnext|walk|bulkget|bulkwalk|set|table|trap|inform|status|test)", rf"-c{_APART}"),
    (r"openssl", rf"-[kK]{_APART}"),
    (r"(?:un)?zip(?:note|cloak)?", rf"-P{_ATTACHED}"),
    (r"7z[ar]?", r"-p"),
    (r"user(?:add|mod)|groupadd|groupmod", rf"-p{_APART}"),
    (r"lftp|ftp|ncftp\w*", rf"-u{_ATTACHED}[^\s,:]{{1,100}}[,:]"),
    (r"mongo(?:sh|dump|restore|export|import)?|evil-winrm", rf"-p{_ATTACHED}"),
    (r"sqlcmd|bcp|osql", rf"-P{_ATTACHED}"),
    (r"https?|xh", rf"-a{_APART}[^\s:]{{1,100}}:"),
    (r"(?:crane[ \t]+auth|helm[ \t]+registry|oc|az(?:[ \t]+acr)?)[ \t]+login", rf"-p{_APART}"),
    (r"xfreerdp\d?|wlfreerdp", r"/p:"),
    ("rclone", r"obscure[ \t]+(?!-)"),
    (r"rclone[ \t]+config[ \t]+\w{1,20}", r"pass(?:word)?[ \t]+(?!-)"),
    (r"rclone[ \t]+config[ \t]+\w{1,20}", r"pass(?:word)?2[ \t]+(?!-)"),
    (r"rclone[ \t]+config[ \t]+\w{1,20}", r"(?:\w{0,30}(?:secret|token)\w{0,30}|(?:account_)?key)[ \t]+(?!-)"),
    (r"rclone[ \t]+config[ \t]+password", rf"{_WORD}[ \t]+{_WORD}[ \t]+(?!-)"),
    ("virsh", r"secret-set-value[ \t]+(?:--secret[ \t=]+)?[^\s-]\S{0,99}[ \t]+(?:--base64[ \t=]+)?(?!-)"),
    ("virsh", r"secret-set-value[ \t]+--base64[ \t=]+"),
    ("virsh", r"set-user-password[ \t]+(?:--domain[ \t=]+)?\S{1,99}[ \t]+(?:--user[ \t=]+)?\S{1,99}[ \t]+(?!-)"),
    (r"rhc[ \t]+connect", rf"-p{_APART}"),
    (r"rhc[ \t]+connect", rf"-a{_APART}"),
    (r"sqlplus|expdp|impdp|sqlldr|rman", r"[\"']?[A-Za-z][\w$#]{0,30}/(?![/@\s])"),
    (r"mosquitto_(?:pub|sub|rr|ctrl)", r"(?:-P|--pw)[ \t]+"),
    ("mosquitto_passwd", r"-\w{0,2}b[ \t]+\S{1,200}[ \t]+\S{1,100}[ \t]+"),
    (r"ceph(?:-\w{1,20})?|rbd|rados(?:gw-admin)?", r"--key[ \t=]+"),
    ("ceph", r"(?:config-key[ \t]+(?:set|put)|dashboard[ \t]+ac-user-set-password)[ \t]+\S{1,200}[ \t]+(?!-)"),
    ("weka", rf"user[ \t]+(?:login|add[ \t]+{_WORD})[ \t]+{_WORD}[ \t]+(?!-)"),
    ("weka", r"user[ \t]+passwd[ \t]+(?!-)"),
    (r"kadmin(?:\.local)?", rf"-p?w{_APART}"),
    ("ldappasswd", rf"-a{_APART}"),
    (r"ldappasswd|slappasswd", rf"-s{_APART}"),
    ("hdparm", r"--security-(?:unlock|set-pass|disable|erase(?:-enhanced)?)[ \t]+"),
    ("snmpusm", r"passwd[ \t]+(?!-)"),
    ("snmpusm", r"passwd[ \t]+\S{1,200}[ \t]+(?!-)"),
    ("net-snmp-create-v3-user", rf"-A{_APART}"),
    ("net-snmp-create-v3-user", rf"-X{_APART}"),
    (r"nvme[ \t]+gen-dhchap-key", rf"-s{_APART}"),
    (r"tpm2(?:_\w{1,30})?", rf"-p{_APART}"),
    (r"tpm2(?:_\w{1,30})?", rf"-P{_APART}"),
    ("influx", rf"-t{_APART}"),
    (r"influx[ \t]+(?:setup|user)|rabbitmqadmin|cqlsh|esxcli", rf"-p{_APART}"),
    ("nessuscli", r"--key[ \t=]+"),
    *((r"sedutil(?:-cli)?", rf"--(?i:{actions}){before}[ \t]+(?!-)") for actions, before in _SED),
    ("govc", r"-u[ \t=]+[\"']?[^\s:\"'/]{1,100}:(?=[^\s\"']{1,200}@)"),
    ("vcli", rf"-p{_APART}"),
    (r"ufm_rest_rdma_client\.sh|ufm_rdma\.py", rf"-p{_APART}"),
    (r"ufm_rest_rdma_client\.sh|ufm_rdma\.py", rf"-k{_APART}"),
    (r"iscsiadm", r"-n[ \t]+\S{1,80}password\S{0,8}[ \t]+-v[ \t]+"),
)
# Options of one letter mean a password to some programs only. To those of MySQL a blank after -p means to ask for it.
_OF_SOME = (
    r"\b(?:(?:sshpass|ipmitool)\b[^\r\n]{0,200}?[ \t]-[pP][ \t]*"
    r"|(?:mysql|mariadb)[\w-]{0,20}\b[^\r\n]{0,200}?[ \t]-p(?=\S)"
    r"|(?:docker|podman|nerdctl|registry|skopeo|buildah)[ \t]+login\b[^\r\n]{0,200}?[ \t]-p[ \t]*"
    r"|redis-cli\b[^\r\n]{0,200}?[ \t]-a[ \t]+"
    r"|ldap(?:search|modify|add|whoami|passwd)\b[^\r\n]{0,200}?[ \t]-\w{0,6}w[ \t]+"
    r"|htpasswd[ \t]+-(?=\w{0,8}b)(?:\w{0,8}n\w{0,8}|\w{1,8}[ \t]+\S{1,200})[ \t]+\S{1,200}[ \t]+"
    r"|curl\b[^\r\n]{0,400}?[ \t](?:-[uU][ \t]*|-\w{1,8}[uU][ \t]+|--(?:proxy-)?user[ \t=]+))"
)
# The same for arguments that have a place in place of an option.
_PLACES = (
    r"\bsmbclient[ \t]+(?://|\\\\)\S+[ \t]+(?![-|>&;])",
    r"\bnet(?:\.exe)?[ \t]+use\b[^\r\n]{0,100}?\\\\\S+[ \t]+(?:/user:\S+[ \t]+)?(?![/*-])",
    r"\bwpa_passphrase[ \t]+(?:\"[^\"\r\n]*\"|\S+)[ \t]+(?![|>&;])",
    r"\brabbitmqctl\b[^\r\n]{0,100}?[ \t](?:add_user|change_password|authenticate_user)[ \t]+\S+[ \t]+",
    # Each of several in a line; the key is left where no quote begins before it.
    r"(?<![\w-])--from-literal(?:=|[ \t]+)(?:[^\s=\"']{1,100}=)?",
    # The output of "openssl passwd -help", the Readme of SMCIPMITool, the usage of IPMICFG, RACADM's guide.
    r"\bopenssl[ \t]+passwd"
    r"(?:[ \t]+-(?:[156]|apr1|aixmd5|quiet|table|reverse|noverify|salt[ \t]+\S{1,100})){0,8}[ \t]+(?!-)",
    r"\bSMCIPMITool(?:\.\w{3})?[ \t]+\S{1,200}[ \t]+\S{1,100}[ \t]+",
    r"(?i:\bipmicfg\b)[^\r\n]{0,100}?[ \t]-user[ \t]+(?:setpwd[ \t]+\d+|add[ \t]+\d+[ \t]+\S{1,100})[ \t]+",
    r"\bcfgUserAdminPassword[ \t]+(?:-i[ \t]+\d+[ \t]+)?",
    # redis.conf, and "redis-cli CONFIG SET".
    r"\b(?:requirepass|masterauth)[ \t]+",
    # nm-settings-nmcli(5).
    r"\b(?:802-11-wireless-security|wifi-sec)\.(?:psk|wep-key\d|leap-password)[ \t]+",
    # qemu(1), qemu-img(1): secret objects.
    r"--?object[ \t]+[\"']?secret,(?:[^\s,]{1,100},){0,8}data=",
    # What a program is given by a pipe.
    r"\b(?:echo|printf)[ \t]+(?:-[neE]{1,3}[ \t]+)?"
    r"(?=[^|\r\n]{1,200}\|[^\r\n]{0,200}?"
    r"(?:--(?:password-|token-)?stdin\b|\bsudo[ \t]+-\w{0,8}S|\bkinit\b|\bcryptsetup\b))",
    r"\bmc(?:li)?[ \t]+alias[ \t]+set[ \t]+\S+[ \t]+\S+[ \t]+\S+[ \t]+",
    r"\baws[ \t]+configure[ \t]+set[ \t]+\S{0,40}(?:secret|token)\S{0,40}[ \t]+",
    # Tokens are long, other words after these are not.
    r"\b(?:vault|wandb)[ \t]+login[ \t]+(?=[^\s-]\S{11})",
    r"\b(?:pro|ua)[ \t]+attach[ \t]+(?=[^\s-]\S{11})",
)


def heads() -> list[str]:
    """Return patterns of what stands before a password, each of its program, a part of the line and the option."""
    of_rows = (rf"\b(?:{programs})\b[^\r\n]{{0,200}}?[ \t,]{beside}" for programs, beside in _ROWS)
    return [_OF_SOME, *of_rows, *_PLACES]


def in_line() -> re.Pattern[str]:
    """Return a pattern of what each line has in which one of ``heads`` is found; none of these goes beyond its line."""
    programs = "|".join(dict.fromkeys(programs for programs, _beside in _ROWS))
    all_of_them = [rf"\b(?:{programs})\b", _OF_SOME, *_PLACES]
    # Where no word begins, none of those that begin with one is tried.
    words = "|".join(each[len(_WORD_BEGINS) :] for each in all_of_them if each.startswith(_WORD_BEGINS))
    others = [each for each in all_of_them if not each.startswith(_WORD_BEGINS)]
    return re.compile("|".join([rf"{_WORD_BEGINS}(?:{words})", *others]))


def patterns(value: str) -> list[re.Pattern[str]]:
    """Return the same as patterns with the groups ``head`` and ``value``; ``value`` is a pattern of that."""
    return [re.compile(rf"(?P<head>{head})(?P<value>{value})") for head in heads()]
