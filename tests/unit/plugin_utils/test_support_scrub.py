# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No secret stays, wherever one may stand, and what names none is left as it is."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import TEMPLATES
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.scrub import names_secret, scrubbed, scrubbed_text
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import RECORDINGS
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

SECRET = "hunter2"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY-----"
JWT = f"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.{SECRET}-c2lnbmF0dXJl"
PROGRAMS = (
    "curl -sku admin:{} https://bmc/redfish",
    "curl -E cert.pem:{} https://x",
    "curl --proxy-cert 'cert.pem:{}' https://x",
    "curl -b 'sid={}; a=b' x",
    "ipmitool user set password 2 {} 20",
    "ipmitool user test 2 16 {}",
    "ipmitool -H h lan set 1 snmp {}",
    "mstflint -d 03:00.0 hw_access enable {}",
    "flint -d 03:00.0 set_key {}",
    "ilorest login 192.0.2.1 -u admin -p {}",
    "sum -i 192.0.2.1 -u ADMIN -p {} -c GetBmcInfo",
    "onecli config show --bmc admin:{}@192.0.2.1",
    "ssh-keygen -t ed25519 -N '{}' -f key",
    "ssh-keygen -p -P {} -f key",
    "ipa-client-install -p admin -w {}",
    "etcdctl --endpoints x --user root:{} get /",
    "etcdctl user add me:{}",
    "ctr -n k8s.io images pull --user me:{} nvcr.io/x",
    "skopeo login -u me -p {} nvcr.io",
    "buildah login -u me -p {} nvcr.io",
    "oras pull -u me -p {} x",
    "az acr login -n x -u me -p {}",
    "ldapsearch -xw {} -b dc=x",
    "redis-cli -h h AUTH me {}",
    "kubectl create secret generic x --from-literal=a={0} --from-literal 'b={0} {0}'",
    "oc create secret generic x --from-literal=a='{0} {0}'",
    "mc alias set m https://x me {}",
    "aws configure set aws_secret_access_key {}",
    "vault login s.abcdefg{}",
    "wandb login abcdefg{}",
    "pro attach abcdefg{}",
    "smbclient -U user%{} //h/s",
    r"smbclient //h/s -U 'dom\user%{}'",
    "rpcclient --user=a%{} h",
    "smbclient //h/s {} -c ls",
    r"net use X: \\h\s /user:dom\x {}",
    r"net use X: \\h\s {} /user:x",
    "mount.cifs //h/s /m -o username=a%{},ro",
    "mount.cifs //h/s /m -o user=a,password={},ro",
    "ipmitool -I lanplus -H h -U a -P {} power status",
    "ipmitool -H h -k {} power status",
    "ipmipower -h h -u a -p {} --on",
    "racadm -r h -u root -p {} getsysinfo",
    "snmpget -v3 -u a -A {0} -X {0} h",
    "snmpwalk -v2c -c {} h",
    "openssl enc -k {}",
    "unzip -P {} a.zip",
    "7z x -p{} a.7z",
    "useradd -p {} a",
    "lftp -u user,{} h",
    "mongo -u a -p {} h",
    "sqlcmd -S h -U a -P {}",
    "http -a user:{} u",
    "oc login -u a -p {} h",
    "xfreerdp /u:a /p:{} /v:h",
    "wpa_passphrase net {}",
    "rabbitmqctl change_password a {}",
    "iscsiadm -m node -o update -n node.session.auth.password -v {}",
    "rclone config create x sftp host h user u pass {0} pass2 {0}",
    "rclone config create x s3 provider AWS secret_access_key {}",
    "rclone config password x anything {}",
    "rclone obscure {}",
    "virsh secret-set-value 0a81f5b2-8403-7b23-c8d6-21ccc2f80d6f {}",
    "virsh secret-set-value --secret 0a81f5b2 --base64 {}",
    "virsh secret-set-value --base64 {} --secret 0a81f5b2",
    "virsh set-user-password vm root {}",
    "rhc connect -u me -p {}",
    "rhc connect -o org -a {}",
    "sqlplus -s scott/{}@db @x.sql",
    "expdp system/{}@db",
    "mosquitto_pub -h h -u me -P {} -t a -m x",
    "mosquitto_sub -h h -u me --pw {} -t a",
    "mosquitto_passwd -b /etc/pw me {}",
    "ceph --key {} -s",
    "rbd map x --id admin --key={}",
    "ceph config-key set mgr/x {}",
    "weka user login admin {} -H h",
    "weka user add me regular {}",
    "weka user passwd {} --username a",
    "kadmin -p a -w {} -q x",
    "kadmin.local -q 'addprinc -pw {} me'",
    "ldappasswd -a {0} -s {0} uid=x",
    "slappasswd -s {}",
    "hdparm --user-master u --security-set-pass {} /dev/sda",
    "snmpusm -v3 -u a h passwd {0} {0}",
    "net-snmp-create-v3-user -A {0} -X {0} -a SHA me",
    "nvme gen-dhchap-key -s {}",
    "tpm2_unseal -c 0x1 -p {}",
    "influx setup -u me -p {0} -t {0}",
    "rabbitmqadmin -u a -p {} list",
    "cqlsh -u a -p {}",
    "esxcli -u root -p {} system",
    "mongodump -u a -p{} -h h",
    "sedutil-cli --initialSetup {} /dev/nvme0",
    "sedutil-cli --setSIDPassword {0} {0} /dev/nvme0",
    "sedutil-cli --setpassword {0} Admin1 {0} /dev/nvme0",
    "sedutil-cli -n --listLockingRange 0 {} /dev/nvme0",
    "sedutil-cli --setMBRDone on {} /dev/nvme0",
    "sedutil-cli --setLockingRange 0 RW {} /dev/nvme0",
    "sedutil-cli --setupLockingRange 1 0 1024 {} /dev/nvme0",
    "sedutil-cli --setup_SUM 1 0 1024 {0} {0} /dev/nvme0",
    "govc about -u=root:{}@vcenter.example -k",
    "govc ls -u 'me@sso.example:{}@192.0.2.1'",
    "vcli -u admin -p {} -c cluster list",
    "./ufm_rest_rdma_client.sh -u admin -p {} -t simple",
    "./ufm_rdma.py -r client -k {} -t simple",
    "nessuscli agent link --key={} --host=h",
    "openssl passwd -6 -salt x {}",
    "java -jar SMCIPMITool.jar 192.0.2.1 ADMIN {} ipmi power up",
    "IPMICFG-Linux.x86_64 -user setpwd 2 {}",
    "racadm config -g cfgUserAdmin -o cfgUserAdminPassword -i 2 {}",
    "redis-cli CONFIG SET requirepass {}",
    "nmcli con add type wifi ssid x wifi-sec.psk {}",
    "qemu-img create --object secret,id=s,data={} x",
    "echo {} | docker login nvcr.io -u x --password-stdin",
    "echo -n '{}' | sudo -S true",
    "storcli64 /c0 set securitykey={}",
    "SLURM_JWT={}",
)
TEXTS = {
    "a setting": f"password={SECRET} user=x",
    "with commas in it": f"token={SECRET},{SECRET} more",
    "JSON": f'{{"password":"{SECRET}","a":1}}',
    "JSON with a quote in it": rf'{{"password":"a\"{SECRET}","a":1}}',
    "JSON within JSON": rf"{{\"password\":\"a\\\"{SECRET}\",\"b\":true}}",
    "YAML": f"clientSecret: '{SECRET}'",
    "a block of YAML": f"password: |\n  {SECRET}\n  {SECRET}\nnext: 1",
    "an entry of an environment": f"- name: DB_PASSWORD\n  value: {SECRET}\n",
    "a quote that was cut off": f'passwd = "{SECRET}',
    "a message of a log": f'level=info msg="login failed password={SECRET}"',
    "a Go map": f"map[token:{SECRET} x:y]",
    "a flag": f"/bin/agent --token {SECRET} --v=2",
    "a flag with its value": f"/bin/agent --api-key={SECRET}",
    "a header": f"> Authorization: Bearer {SECRET}",
    "a header of another scheme": f'"Authorization": "Basic {SECRET}"',
    "a token of a bearer": f"sent Bearer {SECRET}{SECRET}",
    "an address": f"GET https://user:{SECRET}@registry.example/v2/",
    "a JWT": f"got {JWT} from it",
    "a token of a service": f"pulling with nvapi-{SECRET}{SECRET}",
    "a private key": f"before\n{PEM}\nafter",
    "a private key that was cut off": PEM.partition("-----END")[0],
    "a kubeconfig": f"users:\n- name: ci\n  user:\n    client-key-data: {SECRET}\n    token: {SECRET}\n",
    "a pull secret": f'{{"auths": {{"nvcr.io": {{"auth": "{SECRET}"}}}}}}',
    "a Secret": f"kind: ConfigMap\ndata:\n  a: b\n---\nkind: Secret\ndata:\n  x: {SECRET}\nstringData:\n  a: {SECRET}",
    "a JWE": f"eyJhbGciOiJSU0EtT0FFUCJ9.abcdefgh.{SECRET}.{SECRET}.{SECRET}",
    "tokens of other services": f"glsa_{SECRET}{SECRET} hvs.{SECRET}{SECRET} dckr_pat_{SECRET}-{SECRET}",
    "a hash of a password": f"root:$6$rounds=4096$saltsalt${SECRET}{SECRET}{SECRET}:19000:0::",
    "keys of NVMe": f"hostkey DHHC-1:00:{SECRET}==: NVMeTLSkey-1:01:{SECRET}=:",
    "a signed address": f"GET https://x.blob.example/c?sv=1&sig={SECRET}&se=2",
    "a proxy without a scheme": f"HTTP_PROXY=user:{SECRET}@proxy:3128",
    "a proxy with a slash in its password": f'"https_proxy": "http://user:{SECRET}/{SECRET}@proxy:3128"',
    "a cookie": f"Set-Cookie: sid={SECRET}; Path=/",
    "a digest": f'Authorization: Digest username="x", nonce="{SECRET}", response="{SECRET}"',
    "a neighbor of BGP": f"vtysh: neighbor 10.0.0.1 password {SECRET} applied",
    "a neighbor of BGP in a log": f'{{"msg":"neighbor PEERS password 8 {SECRET}\\n bfd"}}',
    "OSPF and IS-IS": f"ip ospf message-digest-key 1 md5 {SECRET}\narea-password md5 {SECRET}\n",
    "a chain of keys": f" key-string {SECRET}",
    "SNMP": f"rocommunity {SECRET} 10.0.0.0/8\nsnmp-server community {SECRET} RO\ncom2sec a default {SECRET}",
    "users of SNMP": f"createUser admin SHA {SECRET} AES {SECRET}",
    "netrc": f"machine x.example login me password {SECRET} account y",
    "interfaces": f"  wpa-psk {SECRET}",
    "802.1X and MACsec of a profile": f"[802-1x]\npassword={SECRET}\nwep-key0={SECRET}\nmka-cak={SECRET}",
    "IPsec": f'10.0.0.1 10.0.0.2 : PSK "{SECRET}"\nuser : EAP "{SECRET}"',
    "xfrm": "auth-trunc hmac(sha256) 0xhunter2hunter2 96\n enc cbc(aes) 0xhunter2hunter2",
    "WireGuard": f"wg set wg0 private-key {SECRET}",
    "curl": f"+ curl -s -u user:{SECRET} https://x",
    "ipmitool": f"ipmitool -H h -U admin -P {SECRET} chassis",
    "an element": f"<password>{SECRET}</password>",
    "a backslash before it": rf"password=>\{SECRET} token=\{SECRET}",
    "several words": f"password: correct {SECRET} staple",
    "an apostrophe in YAML": f"password: 'it''s {SECRET}'",
    "a block within a block": f"config: |\n  a: b\n  password: |\n    {SECRET}\n",
    "a quoted option of curl": f"curl -u 'me:correct {SECRET}' https://x",
    "a flag with a quoted value": f"--password 'a {SECRET}'",
    "items of a list": f'["--password", "{SECRET}", "--token", "{SECRET}"]',
    "what is piped to chpasswd": f'+ echo "root:{SECRET} {SECRET}" | sudo chpasswd -e',
    "a document for chpasswd": f"chpasswd <<EOF\nroot:{SECRET}\nme:{SECRET}\nEOF\n",
    "a list of cloud-init": f"chpasswd:\n  expire: false\n  list: |\n    root:{SECRET}\n    me:{SECRET}\nnext: 1\n",
    "items of a list of cloud-init": f"chpasswd:\n  list:\n    - root:{SECRET}\n",
    "programs of MySQL": f"mysql -u root -p{SECRET} db\nmysqldump -p'a {SECRET}' db\nmariadb-admin -p{SECRET} ping",
    "logins at registries": f"docker login -u me -p {SECRET} nvcr.io; helm registry login -p {SECRET} x",
    "options of other programs": f"redis-cli -a {SECRET} ping; ldapsearch -x -w {SECRET}",
    "htpasswd": f"htpasswd -nb me {SECRET}\nhtpasswd -b f me {SECRET}",
    "lines within quotes": f'password: "one\n  {SECRET}\n  two"\nnext: 1',
    "lines within quotes of a shell": f"export PASSWORD='one\n{SECRET}'\nnext",
    "later items of a list": f"{{'passwords': ['a', '{SECRET}'], 'b': 1}} tokens: [a, {SECRET}]",
    "later items of a list in a line of JSON": f'{{"passwords":["a]","{SECRET}"],"b":1}}\nnext',
    "lists of a list": f'{{"tokens":[["a"],["{SECRET}"]]}}',
    "a list of JSON that was cut off": f'{{"passwords": ["a", "{SECRET}"',
    "a list over several lines": f'"passwords": [\n  "a",\n  "{SECRET}"\n],',
    "a list of YAML": f"passwords:\n- a\n- '{SECRET}'\n- {SECRET} {SECRET}\nnext: 1",
    "names with underscores": f"AWS_SECRET_ACCESS_KEY={SECRET} ssh_key={SECRET} NGC_API_KEY={SECRET}",
}
HARMLESS = [
    "kind: ConfigMap\ndata:\n  a: b\n---\nkind: Secretary\ndata:\n  a: b\n",
    'the password was refused, no password for user "x"; neighbor 10.0.0.1 up, login by key',
    "rping -c -a 192.0.2.1 -p 9999; ip -p link; curl -s https://x; auth hmac(sha256) 96",
    "$1$2 costs $5, aead rfc4106 off, http_proxy: http://proxy:3128 no_proxy=.svc,@x",
    "<name>a</name><td>token</td>",
    "key=nvidia.com/gpu:NoSchedule op=Exists",
    "secrets:\n- name: ngc\nsources:\n- a\n- b\n",
    "12:30:01 cloud-init: ran module chpasswd at http://x:80/y: ok",
    "sedutil-cli --scan; sedutil-cli --query /dev/nvme0; govc about -u=vcenter.example:443; mongosh --port 27017",
    "docker run -p 8080:80 x; mysql -p -h db.example; ldapsearch -H ldap://x; redis-cli -h x",
    "automountServiceAccountToken: true",
    'secretName: whereabouts-cert\nimagePullSecrets: [{"name": "ngc"}]',
    'apiGroup: rbac.authorization.k8s.io, "pod-template-hash": "7d9f"',
    '"password": null, "token": false',
    'verdict "passed": 7 of 8, bypass: off',
    "docker://nvcr.io/nvidia/mellanox/x@sha256:00ff",
    ".chip.pass::before { content: x }",
    "E0101 token expired, 12:30:01 mlx5_core 0000:18:00.0: Port module event: module 0",
]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_secret_stays_in_text(text: str) -> None:
    clean = scrubbed_text(text)
    assert SECRET not in clean and MASK in clean
    assert scrubbed_text(clean) == clean, "what was scrubbed once is not changed any more"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_is_left(text: str) -> None:
    assert scrubbed_text(text) == text


def test_a_number_is_a_secret_too() -> None:
    assert scrubbed_text('{"password":1234,"a":5}') == f'{{"password":{MASK},"a":5}}'


def test_what_stands_beside_a_secret_stays() -> None:
    assert scrubbed_text(TEXTS["a setting"]) == f"password={MASK} user=x"
    assert scrubbed_text(TEXTS["a block of YAML"]) == f"password: {MASK}\nnext: 1"
    assert scrubbed_text(TEXTS["a Secret"]).startswith("kind: ConfigMap\ndata:\n  a: b\n---\nkind: Secret\n")
    assert scrubbed_text(TEXTS["a neighbor of BGP"]) == f"vtysh: neighbor 10.0.0.1 password {MASK} applied"
    assert scrubbed_text(TEXTS["later items of a list in a line of JSON"]) == f'{{"passwords":{MASK},"b":1}}\nnext'
    assert scrubbed_text(TEXTS["lines within quotes"]) == f'password: "{MASK}"\nnext: 1'
    assert scrubbed_text(TEXTS["a list of YAML"]) == f"passwords:\n- {MASK}\n- '{MASK}'\n- {MASK}\nnext: 1"
    assert scrubbed_text(TEXTS["a list of cloud-init"]).endswith(f"    root:{MASK}\n    me:{MASK}\nnext: 1\n")
    assert scrubbed_text(TEXTS["a proxy without a scheme"]) == f"HTTP_PROXY={MASK}@proxy:3128"
    assert scrubbed_text(TEXTS["an address"]) == f"GET https://{MASK}@registry.example/v2/"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('{"msg":"TOKEN=%s","other":"x","n":1}', '{"msg":"TOKEN=%s","other":"x","n":1}'),
        (r'{"log":"{\"msg\":\"TOKEN=%s\",\"b\":1}","c":2}', r'{"log":"{\"msg\":\"TOKEN=%s\",\"b\":1}","c":2}'),
        ("{'cmd': 'agent --token %s', 'b': 1}", "{'cmd': 'agent --token %s', 'b': 1}"),
        ('[{"cmd":"curl -u %s"},{"b":1}]', '[{"cmd":"curl -u %s"},{"b":1}]'),
        ('{"a":"x"} TOKEN=a",b%s c', '{"a":"x"} TOKEN=%s c'),
        ('{"a":"x\nTOKEN=a",b%s c', '{"a":"x\nTOKEN=%s c'),
    ],
    ids=[
        "a string",
        "a string in a string",
        "a flag",
        "an option of a program",
        "no string is open",
        "of another line",
    ],
)
def test_a_value_without_quotes_ends_with_the_string_that_it_stands_in(text: str, clean: str) -> None:
    assert scrubbed_text(text % SECRET) == clean % MASK


def test_a_private_key_is_known_in_base64_and_a_certificate_stays() -> None:
    key, certificate = (
        base64.b64encode(f"-----BEGIN {what}-----\nMII\n".encode()).decode()
        for what in ("EC PRIVATE KEY", "CERTIFICATE")
    )
    assert scrubbed_text(f"a {key} b {certificate}") == f"a {MASK} b {certificate}"


def test_no_secret_stays_in_objects() -> None:
    annotation = json.dumps({"env": [{"name": "PASSWORD", "value": SECRET}]})
    body: dict[str, Any] = {
        "kind": "DaemonSet",
        "metadata": {"name": "x", "annotations": {"note": annotation, "example.com/token": SECRET}},
        "spec": {
            "args": ["--token", SECRET, "--v", "2", f"--password={SECRET}"],
            "env": [
                {"name": "API_TOKEN", "value": SECRET},
                {"name": "LEVEL", "value": SECRET},
                {"name": "DEBUG", "value": "true"},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "creds", "key": "password"}}},
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": [{"secret": {"secretName": "certs"}}],
            "passwords": [SECRET],
        },
    }
    clean = scrubbed(body)
    assert SECRET not in json.dumps(clean)
    assert clean["spec"]["args"] == ["--token", MASK, "--v", "2", f"--password={MASK}"]
    assert clean["spec"]["env"][1] == {"name": "LEVEL", "value": MASK}
    assert clean["spec"]["env"][2:] == body["spec"]["env"][2:], "names of keys are no secret"
    assert clean["spec"]["tolerations"] == body["spec"]["tolerations"]
    assert clean["spec"]["volumes"] == body["spec"]["volumes"]


def test_the_data_of_a_secret_is_masked_whatever_its_names() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "x"}, "data": {"plain": SECRET}, "stringData": {"a": SECRET}}
    masked = {"data": {"plain": MASK}, "stringData": {"a": MASK}}
    assert scrubbed(secret) == {"kind": "Secret", "metadata": {"name": "x"}, **masked}
    assert scrubbed({"kind": "Secret", "data": SECRET, "stringData": None})["data"] == MASK


@pytest.mark.parametrize(
    "environment",
    [
        {"env": [{"name": "A", "value": SECRET}, {"name": "B", "value": "1"}]},
        {"extraEnvVars": [{"name": "A", "value": SECRET, "more": {"token": SECRET}}]},
        {"environment": {"A": SECRET, "DEBUG": "false"}},
        {"worker_env": [f"A={SECRET}", "B"]},
    ],
)
def test_a_variable_of_an_environment_is_masked_whatever_its_name(environment: dict[str, Any]) -> None:
    clean = scrubbed({"container": environment})
    assert SECRET not in str(clean) and MASK in str(clean)
    assert str(clean).count("'B") == str(environment).count("'B"), "numbers, truth values and what has no value stay"


def test_names_that_hold_a_word_of_secrets_and_name_none() -> None:
    harmless = "key topologyKey secretName secretRef imagePullSecrets authority author passed pkey tx_hash passthrough"
    none_of([name for name in harmless.split() if names_secret(name)])


@pytest.mark.parametrize("host", ["dgx-h100-01", "vm-vf-01"])
def test_facts_of_hosts_are_left_as_they_are(host: str) -> None:
    facts = run_action("rdma_info", {"recording": str(RECORDINGS / f"{host}.json.gz")})["facts"]
    assert scrubbed(facts) == facts


def test_the_page_of_a_report_still_works() -> None:
    """Its scripts and styles name keys and pass states, and none of them is a secret."""
    none_of([path.name for path in TEMPLATES.iterdir() if scrubbed_text(path.read_text()) != path.read_text()])


# What a text begins with, and what it repeats: names without an end, values within values, quotes that never close.
HOSTILE = [
    ("", "a=b:"),
    ("", "a="),
    ("", "a:\\'"),
    ("", "token='a''"),
    ("token='a", "''\\"),
    ("", '{"a":"TOKEN=x",'),
    ("", "\\"),
    ("", "a\\"),
    ("", "a\\'"),
    ("", "['--a', 'b',"),
    ("", "--token '"),
    ("", "-a 'b"),
    ("", "-a."),
    ("", "eyJ-"),
    ("", "eyJaaaaaa-"),
    ("-----BEGIN ", "PRIVATE KEY"),
    ("-----BEGIN PRIVATE KEY----------END ", "PRIVATE KEY"),
    ("", "-----BEGIN "),
    ("", "LS0tLS1CRUdJTiA="),
    ("", "<a>b"),
    ("", "{"),
    ("", "proxy=a: "),
    ("", "password "),
    ("", "password:"),
    ("", "curl x "),
    ("", "curl -u '"),
    ("", "wg "),
    ("", "com2sec "),
    ("", ': PSK "'),
    ("", "name: a\nvalue: "),
    ("", "a: |\n "),
    ("kind: Secret\n", "data:\n "),
    ("", "chpasswd:\n "),
    ("", "a:b chpasswd <<"),
    ("chpasswd ", "a:b"),
    ("", "tokens:\n- a\n"),
    ("tokens:\n", "- a\n"),
    ("", "tokens: [\n'a'\n"),
    ("", 'token: ["a'),
    ("", 'token: "a\n'),
    ("", 'token: "\na\na\na\n'),
    ("", "mysql a"),
    ("", "htpasswd -b "),
    ("", " "),
    ("", "\n"),
]


def _seconds(text: str) -> float:
    began = time.process_time()
    scrubbed_text(text)
    return time.process_time() - began


@pytest.mark.slow
def test_time_grows_as_the_text_does() -> None:
    """Eight times the text may take 16 times as long; what reads a text again at each place takes 64 times."""
    none_of(
        [
            f"{begin!r} and {each!r} again and again"
            for begin, each in HOSTILE
            if _seconds(begin + each * (32768 // len(each))) > 0.05 + 16 * _seconds(begin + each * (4096 // len(each)))
        ]
    )


def test_passwords_among_the_arguments_of_programs_are_masked() -> None:
    commands = [command.format(SECRET) for command in PROGRAMS]
    none_of(said for said in map(scrubbed_text, commands) if SECRET in said or MASK not in said)


def test_passwords_of_programs_are_masked_in_each_line_that_has_one_and_other_lines_stay() -> None:
    lines = [line for number, command in enumerate(PROGRAMS) for line in (f"line {number}", command.format(SECRET))]
    said = scrubbed_text("\n".join(lines)).split("\n")
    assert said[::2] == lines[::2]
    none_of(line for line in said[1::2] if SECRET in line or MASK not in line)


@pytest.mark.parametrize(
    "text",
    [
        "curl -sSLo f -b jar x",
        "ldapsearch -xLLL x",
        "vault login failed",
        "flint -d x q",
        "sum -c GetBmcInfo",
        "ctr i ls",
        "net use X: \\\\h\\s",
        "zip -r a.zip b",
        "openssl version -a",
        "useradd -m a",
        "smbclient -N //h/s",
        "rclone config show",
        "virsh secret-list",
        "sqlplus -s /nolog @dir/x.sql",
        "mosquitto_sub -h h -t a",
        "ceph -s --format json",
        "weka user",
        "echo done | tee /run/x",
        "rhc status",
        "kadmin.local -q list_principals",
    ],
)
def test_programs_without_a_password_are_left_as_they_are(text: str) -> None:
    assert scrubbed_text(text) == text


WORDS = ("password", "token", "cookie", "client", "key", "eyJhbGciOi", "AKIA", "glpat-", "a1B2c3D4e5", "LS0tLS1CRUdJTi")


def test_what_is_passed_over_as_a_name_or_an_address_has_nothing_to_mask() -> None:
    parts = (*WORDS, "0000:65:00.0", ":", "/", "-", "10.0.0.1", "enp1s0")
    texts = {f"{first}{second}{third}" for first in parts for second in parts for third in parts}
    none_of(sorted(text for text in texts if scrubbed(text) != scrubbed_text(text)))
